"""Attention of each token to all tokens of its text, or to those within a window.

Queries, keys and values are float32 [batch, tokens, width] with heads side by side in `width`.

Within a window, the cost is linear in the length of the text. A long text is split into blocks of
queries. Each block attends to one stretch of keys, which contains its window and nothing else: in a
text of 2,048 tokens with a window of 256 to each side, a query attends to 640 keys. A short text is
one block with the whole text as its stretch, so the same nodes process both and the graph needs no
branch. The blocks have equal sizes, so a long text is padded by fewer tokens than it has blocks.
"""

from typing import Self

import numpy as np
from onnx import TensorProto

from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Floats

#: Added to the scores of masked tokens, as in transformers (the lowest float32).
LOWEST = float(np.finfo(np.float32).min)


class FullAttention:
    """Attention of a graph.

    ONNX Runtime's kernel computes the scores piece by piece, without a matrix of them all, only if
    it gets no mask. So the mask is one more column of each head: 1 in the query, and the bias of a
    key in the key. From about 1,000 tokens on this is also faster.

    Args:
        builder: The graph.
        heads: The number of heads.
        shape: The name of the shape int64 [batch, tokens, heads, head_size].
        column: That of the shape int64 [batch, tokens, heads, 1].
        key_bias: Added to the scores of each key, float32 [batch, tokens].
        scale: By what the scores are multiplied.
    """

    def __init__(
        self,
        builder: GraphBuilder,
        *,
        heads: int,
        shape: str,
        column: str,
        key_bias: str,
        scale: float,
    ) -> None:
        op, self._builder, self._heads = builder.op, builder, heads
        self._shape, self._scale = shape, scale
        self._ones = op.Expand(builder.constant(1, np.float32), column)
        self._bias = op.Expand(op.Unsqueeze(key_bias, builder.int64(2, 3)), column)

    @classmethod
    def with_mask(cls, builder: GraphBuilder, *, heads: int, head_size: int) -> Self:
        """Return the attention of a graph with the input `attention_mask`."""
        op, tokens = builder.op, builder.op.Shape("attention_mask")
        shape = op.Concat(tokens, builder.int64(heads, head_size), axis=0)
        column = op.Concat(tokens, builder.int64(heads, 1), axis=0)
        return cls(
            builder,
            heads=heads,
            shape=shape,
            column=column,
            key_bias=_key_bias(builder, "attention_mask", LOWEST),
            scale=head_size**-0.5,
        )

    def add(self, query: str, key: str, value: str) -> str:
        """Attend, from and to float32 [batch, tokens, width] with heads side by side."""
        return self._builder.microsoft.MultiHeadAttention(
            self._with_column(query, self._ones),
            # The kernel multiplies the bias by the scale, which leaves it far below any score.
            self._with_column(key, self._bias),
            value,
            num_heads=self._heads,
            scale=self._scale,
        )

    def _with_column(self, value: str, column: str) -> str:
        op = self._builder.op
        wider = op.Concat(op.Reshape(value, self._shape), column, axis=-1)
        return op.Reshape(wider, self._builder.int64(0, 0, -1))


#: Queries per block. Larger blocks include more keys outside the window, smaller ones copy the keys
#: more often. Of 64 to 256, 128 was the fastest from 768 to 2,048 tokens.
BLOCK = 128
#: Added to the scores of masked keys. Its exponential is zero in float32, and the sum of two is
#: still finite.
MASKED = -1e9


class Blocks:
    """A graph's inputs, split into blocks. All attributes are names of values in the graph.

    By default, an attention operator takes the blocks as texts: queries are split into [batch *
    blocks, block, width], stretches of keys, gathered by `keys`, are reshaped to [batch * blocks,
    stretch, width], and the bias is [batch * blocks, 1, block, stretch], the same for all heads.

    For heads that share one key and value head, queries are split into [batch, blocks, block *
    heads, width]: the rows of a block are its tokens, each with its heads one after the other. The
    bias is [batch, blocks, block * heads, stretch].

    A text of up to `2 * reach + BLOCK` tokens is one block, because the stretch of keys of smaller
    blocks would not be shorter.

    Args:
        builder: A graph with the inputs `input_ids` and `attention_mask`, int64 [batch, tokens].
        reach: How far to each side a token attends.
        width: Width of all heads together; of one if they share a key and value head.
        shared_by: The number of heads that share one.

    Attributes:
        ids: int64 [batch, padded], the padded input ids.
        positions: int64 [batch, padded], each token's place in its text.
        batch: int64 [1], number of texts.
        tokens: int64 [1], tokens of a text before it was padded here.
        padded: int64 [1], tokens of a text; blocks times the size of one.
        key_bias: float32 [batch, padded], added to the scores of each key.
        stretch: int64 [1], keys that a block attends to.
        keys: int64 [blocks, stretch], the places of the keys that each block attends to.
        bias: float32, added to the scores.
        queries_shape: int64, the shape of queries that are split into blocks.
    """

    def __init__(
        self, builder: GraphBuilder, *, reach: int, width: int, shared_by: int | None = None
    ) -> None:
        op, int64 = builder.op, builder.int64
        shape = op.Shape("input_ids")
        self.batch, self.tokens = (op.Gather(shape, int64(axis)) for axis in (0, 1))
        # One block, and more above the limit.
        is_long = op.Greater(self.tokens, int64(2 * reach + BLOCK))
        further = op.Div(op.Sub(self.tokens, int64(1)), int64(BLOCK))
        further = op.Mul(op.Cast(is_long, to=TensorProto.INT64), further)
        blocks = op.Add(further, int64(1))
        block = op.Div(op.Add(self.tokens, further), blocks)  # rounded up
        self.padded = op.Mul(blocks, block)
        pads = op.Concat(int64(0, 0, 0), op.Sub(self.padded, self.tokens), axis=0)
        mask = op.Pad("attention_mask", pads)
        positions = _range(builder, self.padded)
        self.stretch = op.Min(self.padded, op.Add(block, int64(2 * reach)))
        # The first key of each block's stretch, which stays inside the text at its ends.
        start = op.Sub(op.Mul(_range(builder, blocks), block), int64(reach))
        start = op.Max(start, int64(0))
        start = op.Min(start, op.Sub(self.padded, self.stretch))
        self.keys = op.Add(op.Unsqueeze(start, int64(1)), _range(builder, self.stretch))
        queries = op.Reshape(positions, op.Concat(blocks, block, int64(1), axis=0))
        distance = op.Abs(op.Sub(queries, op.Unsqueeze(self.keys, int64(1))))
        is_far = op.Greater(distance, int64(reach))
        far = op.Mul(op.Cast(is_far, to=TensorProto.FLOAT), builder.constant(MASKED, np.float32))
        self.key_bias = _key_bias(builder, mask, MASKED)
        padding = op.Gather(self.key_bias, self.keys, axis=1)
        # The shape is [batch, blocks, block, stretch].
        self.bias = op.Add(far, op.Unsqueeze(padding, int64(2)))
        if shared_by:
            self.bias = op.Expand(op.Unsqueeze(self.bias, int64(3)), int64(1, 1, 1, shared_by, 1))
        self.ids = op.Pad("input_ids", pads)
        self.positions = op.Expand(positions, op.Concat(self.batch, self.padded, axis=0))
        if shared_by:
            self.bias = op.Reshape(self.bias, op.Concat(int64(0, 0, -1), self.stretch, axis=0))
            self.queries_shape = op.Concat(int64(0), blocks, int64(-1, width), axis=0)
        else:
            self.bias = op.Reshape(self.bias, op.Concat(int64(-1, 1), block, self.stretch, axis=0))
            self.queries_shape = op.Concat(int64(-1), block, int64(width), axis=0)


def _key_bias(builder: GraphBuilder, mask: str, masked: float) -> str:
    """Convert a mask int64 [batch, keys] to the bias of the scores, float32 [batch, keys]."""
    present = builder.op.Cast(mask, to=TensorProto.FLOAT)
    missing = builder.op.Sub(builder.constant(1, np.float32), present)
    return builder.op.Mul(missing, builder.constant(masked, np.float32))


def _range(builder: GraphBuilder, count: str) -> str:
    """Return 0, 1, 2 … as int64 [count] for a count int64 [1]."""
    zero, step = (builder.constant(number, np.int64) for number in (0, 1))
    return builder.op.Range(zero, builder.op.Squeeze(count), step)


def whole_blocks(tokens: int) -> int:
    """Return the number of positions of a text of whole blocks: padding also has positions."""
    return -(-tokens // BLOCK) * BLOCK


class HeadAttention:
    """Adds attention to a graph with texts that are split into blocks."""

    def __init__(
        self, builder: GraphBuilder, blocks: Blocks, *, heads: int, head_size: int
    ) -> None:
        self._builder = builder
        self._blocks = blocks
        self._heads = heads
        op, int64, width = builder.op, builder.int64, builder.int64(heads * head_size)
        tokens = op.Concat(blocks.batch, blocks.padded, axis=0)
        self._tokens_shape = op.Concat(tokens, width, axis=0)
        shape = op.Concat(tokens, int64(heads, head_size), axis=0)
        self._stretches_shape = op.Concat(int64(-1), blocks.stretch, width, axis=0)
        full = FullAttention(
            builder,
            heads=heads,
            shape=shape,
            column=op.Concat(tokens, int64(heads, 1), axis=0),
            key_bias=blocks.key_bias,
            scale=head_size**-0.5,
        )
        #: Attends to all tokens of a text.
        self.to_all = full.add

    def within_window(self, query: str, key: str, value: str) -> str:
        """Attend to the tokens within the window; the blocks are separate texts."""
        op, blocks = self._builder.op, self._blocks
        keys, values = (
            op.Reshape(op.Gather(tensor, blocks.keys, axis=1), self._stretches_shape)
            for tensor in (key, value)
        )
        queries = op.Reshape(query, blocks.queries_shape)
        mixed = self._builder.attention(queries, keys, values, blocks.bias, heads=self._heads)
        return op.Reshape(mixed, self._tokens_shape)


#: T5 and MPNet have these numbers: 16 buckets for each direction, of which the distances up to 7
#: have one each. See `_relative_position_bucket` of transformers' T5Attention.
BUCKETS = 32
ONE_DIRECTION = BUCKETS // 2
EXACT = ONE_DIRECTION // 2
#: Greater distances have its bucket.
FARTHEST = 128


def relative_bias(builder: GraphBuilder, table: Floats, positions: int) -> str:
    """Add a bias float32 [1, heads, tokens, tokens] by distance to a graph with `input_ids`.

    See Raffel et al., 2019, https://arxiv.org/abs/1910.10683, section 2.1. The table has the bias
    of each bucket, float32 [buckets, heads]; `positions` is the token limit.
    """
    op = builder.op
    buckets = np.array([bucket(distance) for distance in range(-FARTHEST, FARTHEST + 1)])
    distances = np.arange(1 - positions, positions).clip(-FARTHEST, FARTHEST)
    by_distance = table[buckets[distances + FARTHEST]].T
    columns = op.Add(_distances(builder), builder.constant(positions - 1, np.int64))
    bias = op.Gather(builder.weight("relative_bias", by_distance), columns, axis=1)
    return op.Unsqueeze(bias, builder.int64(0))


def _distances(builder: GraphBuilder) -> str:
    """Return the key's place minus the query's, int64 [tokens, tokens]."""
    op = builder.op
    zero, axis = (builder.constant(value, np.int64) for value in (0, 1))
    positions = op.Range(zero, op.Gather(op.Shape("input_ids"), axis), axis)
    return op.Sub(positions, op.Unsqueeze(positions, builder.int64(1)))


def linear_bias(builder: GraphBuilder, heads: int) -> str:
    """Add ALiBi's bias float32 [1, heads, tokens, tokens], for both directions, to such a graph.

    See Press et al., 2022, https://arxiv.org/abs/2108.12409, section 3.
    """
    far = builder.op.Cast(builder.op.Abs(_distances(builder)), to=TensorProto.FLOAT)
    factors = -np.array(slopes(heads)).reshape(1, heads, 1, 1)
    return builder.op.Mul(far, builder.constant(factors, np.float32))


def slopes(heads: int) -> list[float]:
    """Return ALiBi's slope of each head.

    They are a geometric sequence. For a number that is no power of 2, those of the next lower power
    come first, then every other one of the next higher, as in the paper's own code.
    """
    power = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8 * (number + 1) / power) for number in range(power)]
    return slopes + [2.0 ** (-4 * (2 * number + 1) / power) for number in range(heads - power)]


def bucket(distance: int) -> int:
    """Return the bucket of a distance, which is the key's position minus the query's.

    From 8 on, a bucket begins at each power of the square root of 2. Squares keep this exact; the
    reference takes a logarithm in float32, with the same results.
    """
    far = abs(distance)
    shared = EXACT + (far * far // EXACT**2).bit_length() - 1
    return (ONE_DIRECTION if distance > 0 else 0) + (
        far if far < EXACT else min(shared, ONE_DIRECTION - 1)
    )
