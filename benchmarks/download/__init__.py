"""Measures starts whose artifact comes from S3: `scripts/bench download`."""
