"""Reads and checks a model's files: JSON, safetensors, hashes."""
