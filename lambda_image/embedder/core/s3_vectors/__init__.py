"""Searches an index of S3 Vectors, which may have millions of vectors.

Imported only if the setting EMBEDDING_VECTOR_INDEX names an index.
"""
