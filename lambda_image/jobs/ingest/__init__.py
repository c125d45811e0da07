"""Keeps an index of S3 Vectors equal to the documents below a prefix of S3.

A message of SQS, or a group of a reconciliation, names keys. For each, `documents` reads the object
as it is now, the chunker of the embedder divides it, and `document_index` makes the index's chunks
of that document these. What an earlier run has done is in the document's list.
"""
