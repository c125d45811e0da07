"""HTTP in, vectors out: what runs inside the Lambda image."""
