"""HTTP in, vectors out: what runs inside the Lambda image."""

import os

__version__ = "0.1.0"

# numpy's linear algebra starts a thread a core when it is imported, and they spin while they wait:
# a third of the processor time of a start, where Lambda shares one core out. Nothing here uses it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
