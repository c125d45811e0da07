"""L3 constructs that put a text-embedding model on AWS Lambda."""
