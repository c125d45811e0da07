"""Embeds many files: plan the shards, embed each on its own, then check that nothing is missing.

The same planner and worker run in Lambda functions under Step Functions, and in processes on one
machine. Files are in folders or in S3. The output of a job is a folder of Parquet files.
"""
