"""Embeds many files: plan the shards, embed each on its own, then check that nothing is missing.

The same planner and worker run in Lambda functions under Step Functions, and in processes on one
machine. Files are in folders or in S3. The output of a job is a folder of Parquet files.
"""

import os
import sys

# `python -m` puts the current folder first on the path, and a tqdm.py among a model's files would
# run. Only a program that is in that folder itself keeps it.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path and __path__ != [f"{sys.path[0]}/{__name__}"]:
    del sys.path[0]
    os.environ["PYTHONSAFEPATH"] = "1"  # and so do the processes that this one starts
