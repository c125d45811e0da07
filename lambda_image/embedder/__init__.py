"""HTTP in, vectors out: what runs inside the Lambda image."""

import os
import sys

__version__ = "0.1.0"

# `python -m` puts the current folder first on the path, and a tqdm.py among a model's files would
# run. Only a program that is in that folder itself keeps it.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and __path__ != [f"{sys.path[0]}/{__name__}"]:
    del sys.path[0]
    os.environ["PYTHONSAFEPATH"] = "1"  # and so do the processes that this one starts

# numpy's linear algebra starts a thread a core when it is imported, and they spin while they wait:
# a third of the processor time of a start, where Lambda shares one core out. Nothing here uses it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# ONNX Runtime reports to Microsoft by default, in a thread of its own, with an identifier of the
# device in the user's folder. This is read when it is imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
