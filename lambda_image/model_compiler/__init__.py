"""Compiles a sentence-transformers model folder into an artifact that starts fast and runs fast."""
