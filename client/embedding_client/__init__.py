"""A client for an embedding endpoint behind a Lambda Function URL with IAM auth."""
