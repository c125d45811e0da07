"""Reads a model's folder, and writes its graph: compiled from weights or imported from ONNX."""
