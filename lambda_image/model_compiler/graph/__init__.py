"""Builds ONNX graphs: builder, quantization, attention and the supported architectures."""
