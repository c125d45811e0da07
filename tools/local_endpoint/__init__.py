"""A Lambda Function URL on your own machine."""
