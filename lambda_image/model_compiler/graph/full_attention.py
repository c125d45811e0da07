"""Attention of each token to all tokens of its text, without a matrix of all scores."""

import numpy as np
from onnx import TensorProto

from model_compiler.graph.builder import GraphBuilder

__all__ = ["MASKED", "FullAttention"]

#: Added to the scores of masked tokens, as in transformers (the lowest float32).
MASKED = float(np.finfo(np.float32).min)


class FullAttention:
    """Adds attention to a graph with the input `attention_mask`.

    ONNX Runtime's kernel computes the scores piece by piece, without a matrix of them all, only if
    it gets no mask. So the mask is one more column of each head: 1 in the query, and the bias of a
    key in the key. From about 1,000 tokens on this is also faster.

    Args:
        builder: The graph.
        heads: The number of heads.
        head_size: Width of a head.
    """

    def __init__(self, builder: GraphBuilder, *, heads: int, head_size: int) -> None:
        self._builder = builder
        self._heads = heads
        self._scale = head_size**-0.5
        op, shape = builder.op, builder.op.Shape("attention_mask")
        self._heads_shape = op.Concat(shape, self._int64(heads, head_size), axis=0)
        column = op.Concat(shape, self._int64(heads, 1), axis=0)
        mask = op.Cast("attention_mask", to=TensorProto.FLOAT)
        padding = op.Sub(builder.constant(1, np.float32), mask)
        bias = op.Mul(padding, builder.constant(MASKED, np.float32))
        self._ones = op.Expand(builder.constant(1, np.float32), column)
        # The kernel multiplies the bias by the scale, which leaves it far below any score.
        self._bias = op.Expand(op.Unsqueeze(bias, self._int64(2, 3)), column)

    def add(self, query: str, key: str, value: str) -> str:
        """Attend, from and to float32 [batch, tokens, width] with heads beside each other."""
        return self._builder.microsoft.MultiHeadAttention(
            self._with_column(query, self._ones),
            self._with_column(key, self._bias),
            value,
            num_heads=self._heads,
            scale=self._scale,
        )

    def _with_column(self, value: str, column: str) -> str:
        op = self._builder.op
        wider = op.Concat(op.Reshape(value, self._heads_shape), column, axis=-1)
        return op.Reshape(wider, self._int64(0, 0, -1))

    def _int64(self, *values: int) -> str:
        return self._builder.constant(values, np.int64)
