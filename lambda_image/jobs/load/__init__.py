"""Loads the output of a batch job into an index of S3 Vectors.

It is planned once: one item for each Parquet file of the job. Each item is loaded on its own, in
a Lambda function under Step Functions or in a thread on one machine, and in the end the counts are
compared. The Parquet files are the source of truth: an index can be made again from them.
"""
