"""Compiles `tokenizer.json` into the tables that the embedder maps."""
