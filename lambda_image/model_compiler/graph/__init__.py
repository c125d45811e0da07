"""Builds ONNX graphs: builder, quantization, attention, and the architectures on their bases."""
