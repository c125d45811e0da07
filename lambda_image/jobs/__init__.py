"""The Lambda functions besides the endpoint: embed files, load vectors, check a release."""

import os
import sys

# `python -m` puts the current folder first on the path, and a tqdm.py among a model's files would
# run. Only a program that is in that folder itself keeps it.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and __path__ != [f"{sys.path[0]}/{__name__}"]:
    del sys.path[0]
    os.environ["PYTHONSAFEPATH"] = "1"  # and so do the processes that this one starts
