"""Says whether search still works: compares an index with its documents, by samples."""
