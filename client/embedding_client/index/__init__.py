"""`embed index`, and searches of an index of S3 Vectors with the caller's own credentials."""
