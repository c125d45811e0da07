"""Attention of each token to all tokens of its text, without a matrix of all scores."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from onnx import TensorProto

from model_compiler.graph.builder import GraphBuilder

__all__ = ["MASKED", "FullAttention"]

#: Added to the scores of masked tokens, as in transformers (the lowest float32).
MASKED = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class FullAttention:
    """Attention of a graph.

    ONNX Runtime's kernel computes the scores piece by piece, without a matrix of them all, only if
    it gets no mask. So the mask is one more column of each head: 1 in the query, and the bias of a
    key in the key. From about 1,000 tokens on this is also faster.
    """

    builder: GraphBuilder
    heads: int
    head_size: int
    #: The name of the shape int64 [batch, tokens, heads, head_size].
    heads_shape: str
    #: The names of the columns of queries and of keys, float32 [batch, tokens, heads, 1].
    ones: str
    bias: str

    @classmethod
    def with_mask(cls, builder: GraphBuilder, *, heads: int, head_size: int) -> Self:
        """Return the attention of a graph with the input `attention_mask`.

        Args:
            builder: The graph.
            heads: The number of heads.
            head_size: Width of a head.
        """
        op, shape = builder.op, builder.op.Shape("attention_mask")
        heads_shape = op.Concat(shape, builder.constant((heads, head_size), np.int64), axis=0)
        column = op.Concat(shape, builder.constant((heads, 1), np.int64), axis=0)
        mask = op.Cast("attention_mask", to=TensorProto.FLOAT)
        padding = op.Sub(builder.constant(1, np.float32), mask)
        bias = op.Mul(padding, builder.constant(MASKED, np.float32))
        return cls(
            builder,
            heads,
            head_size,
            heads_shape,
            ones=op.Expand(builder.constant(1, np.float32), column),
            bias=op.Expand(op.Unsqueeze(bias, builder.constant((2, 3), np.int64)), column),
        )

    def add(self, query: str, key: str, value: str) -> str:
        """Attend, from and to float32 [batch, tokens, width] with heads beside each other."""
        return self.builder.microsoft.MultiHeadAttention(
            self._with_column(query, self.ones),
            # The kernel multiplies the bias by the scale, which leaves it far below any score.
            self._with_column(key, self.bias),
            value,
            num_heads=self.heads,
            scale=self.head_size**-0.5,
        )

    def _with_column(self, value: str, column: str) -> str:
        op = self.builder.op
        wider = op.Concat(op.Reshape(value, self.heads_shape), column, axis=-1)
        return op.Reshape(wider, self.builder.constant((0, 0, -1), np.int64))
