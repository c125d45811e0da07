"""From texts to vectors: artifact, tokenizers, batches, ONNX Runtime, search."""
