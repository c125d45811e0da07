"""Measures an environment on AWS, and deletes it: `scripts/prove NAME`."""
