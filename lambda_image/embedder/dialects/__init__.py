"""The dialects: each parses one API's requests and renders its answers and errors, nothing else."""
