"""Attention of heads that each have their own keys and values, to all tokens or within a window.

Queries, keys and values are float32 [batch, tokens, width] with heads beside each other in `width`.
The tokens are those of `split_into_block_texts`.
"""

import numpy as np

from model_compiler.graph.banded_attention import Blocks
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.full_attention import FullAttention

__all__ = ["HeadAttention"]


class HeadAttention:
    """Adds attention to a graph.

    Args:
        builder: The graph.
        blocks: How its texts are split.
        heads: The number of heads.
        head_size: Width of a head.
    """

    def __init__(
        self, builder: GraphBuilder, blocks: Blocks, *, heads: int, head_size: int
    ) -> None:
        self._builder = builder
        self._blocks = blocks
        self._heads = heads
        self._scale = head_size**-0.5
        op, width = builder.op, self._int64(heads * head_size)
        tokens = op.Concat(blocks.batch, blocks.padded, axis=0)
        self._tokens_shape = op.Concat(tokens, width, axis=0)
        heads_shape = op.Concat(tokens, self._int64(heads, head_size), axis=0)
        self._stretches_shape = op.Concat(self._int64(-1), blocks.stretch, width, axis=0)
        column = op.Concat(tokens, self._int64(heads, 1), axis=0)
        self._full = FullAttention(
            builder,
            heads,
            head_size,
            heads_shape,
            ones=op.Expand(builder.constant(1, np.float32), column),
            bias=op.Expand(op.Unsqueeze(blocks.key_bias, self._int64(2, 3)), column),
        )

    def within_window(self, query: str, key: str, value: str) -> str:
        """Attend to the tokens within the window; the blocks are texts of their own."""
        op, blocks = self._builder.op, self._blocks
        stretches = (
            op.Reshape(op.Gather(part, blocks.keys, axis=1), self._stretches_shape)
            for part in (key, value)
        )
        mixed = self._builder.microsoft.MultiHeadAttention(
            op.Reshape(query, blocks.queries_shape),
            *stretches,
            "",
            "",
            blocks.bias,
            num_heads=self._heads,
            scale=self._scale,
        )
        return op.Reshape(mixed, self._tokens_shape)

    def to_all(self, query: str, key: str, value: str) -> str:
        """Attend to all tokens of a text."""
        return self._full.add(query, key, value)

    def _int64(self, *values: int) -> str:
        return self._builder.constant(values, np.int64)
