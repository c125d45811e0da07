"""Attention of encoders of BERT's kind, by one of two ways of ONNX Runtime."""

from onnx import TensorProto

from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.full_attention import MASKED, FullAttention
from model_compiler.graph.quantization import Floats

__all__ = ["LONG", "PostNormAttention"]

#: Number of positions above which attention does without a matrix of all scores: with 16 heads, one
#: of 8,192 tokens has 4.3 GB.
LONG = 1024


class PostNormAttention:
    """Adds attention to a graph with the input `attention_mask`.

    Args:
        builder: The graph.
        heads: The number of heads.
        width: The width of all heads.
        positions: The token limit.
        relative_bias: A bias float32 [1, heads, tokens, tokens] of the scores; empty for none.
    """

    def __init__(
        self, builder: GraphBuilder, *, heads: int, width: int, positions: int, relative_bias: str
    ) -> None:
        self._builder = builder
        self._heads = heads
        self._width = width
        self._relative = [relative_bias] if relative_bias else []
        self._full = None
        if positions > LONG and not relative_bias:
            self._full = FullAttention.with_mask(builder, heads=heads, head_size=width // heads)
        else:
            # 1 for a token, 0 for padding, as MultiHeadAttention takes it.
            self._mask = builder.op.Cast("attention_mask", to=TensorProto.INT32)

    def add(self, projected: str, bias: Floats, *, name: str) -> str:
        """Attend from float32 [batch, tokens, 3 * width] to [batch, tokens, width].

        Args:
            projected: Queries, keys and values beside each other, without their bias.
            bias: That bias, float32 [3 * width].
            name: The name of the bias.
        """
        builder, sizes = self._builder, [self._width] * 3
        if self._full:
            shifted = builder.op.Add(projected, builder.weight(name, bias))
            return self._full.add(*builder.split(shifted, sizes))
        parts = builder.split(projected, sizes)
        return builder.microsoft.MultiHeadAttention(
            *parts,
            builder.weight(name, bias),
            self._mask,
            *self._relative,
            num_heads=self._heads,
            mask_filter_value=MASKED,
        )
