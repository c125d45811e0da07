"""Loads the output of a batch job into an index of S3 Vectors.

A load is planned once: one item for each Parquet file of the job. Each item is loaded on its own,
in a Lambda function under Step Functions or in a thread on one machine, and in the end the counts
are compared. The Parquet files are the source of truth: an index can be made again from them.
"""

import os
import sys

# `python -m` puts the current folder first on the path, and a tqdm.py among a model's files would
# run. Only a program that is in that folder itself keeps it.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and __path__ != [f"{sys.path[0]}/{__name__}"]:
    del sys.path[0]
    os.environ["PYTHONSAFEPATH"] = "1"  # and so do the processes that this one starts
