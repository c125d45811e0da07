"""Compares an artifact's vectors with the model's own."""
