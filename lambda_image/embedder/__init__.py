"""HTTP in, vectors out: what runs inside the Lambda image."""

__version__ = "0.1.0"
