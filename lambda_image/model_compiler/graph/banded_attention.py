"""Attention within a window, at a cost that is linear in the length of the text.

A long text is split into blocks of queries. Each block attends to one stretch of keys, which
contains its window and nothing else: in a text of 2,048 tokens with a window of 256 to each side, a
query attends to 640 keys. A short text is one block whose stretch is the whole text, so the same
nodes process both and the graph needs no branch.

The blocks have equal sizes, so a long text is padded by fewer tokens than it has blocks.
"""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from model_compiler.graph.builder import GraphBuilder

__all__ = ["BLOCK", "MASKED", "Blocks", "split_into_blocks"]

#: Queries per block. Larger blocks include more keys outside the window, smaller ones copy the keys
#: more often. Of 64 to 256, 128 was the fastest from 768 to 2,048 tokens.
BLOCK = 128
#: Added to the scores of masked keys. Its exponential is zero in float32, and the sum of two is
#: still finite.
MASKED = -1e9


@dataclass(frozen=True, slots=True)
class Blocks:
    """A batch that is split into blocks. All attributes are names of values in the graph.

    Attributes:
        ids: int64 [batch, padded], the padded input ids.
        mask: int64 [batch, padded], 1 for a token, 0 for padding.
        positions: int64 [batch, padded], each token's place in its text.
        batch: int64 [1], number of texts.
        tokens: int64 [1], tokens of a text before it was padded here.
        padded: int64 [1], tokens of a text; blocks times the size of one.
        key_bias: float32 [batch, padded], added to the scores of each key.
        keys: int64 [blocks, stretch], the places of the keys that each block attends to.
        bias: float32 [batch, blocks, block * heads, stretch], added to the scores.
        queries_shape: int64 [4], [batch, blocks, block * heads, head_size] with -1 for the third.
    """

    ids: str
    mask: str
    positions: str
    batch: str
    tokens: str
    padded: str
    key_bias: str
    keys: str
    bias: str
    queries_shape: str


def split_into_blocks(builder: GraphBuilder, *, reach: int, heads: int, head_size: int) -> Blocks:
    """Split the graph's `input_ids` and `attention_mask` into blocks.

    A text of up to `2 * reach + BLOCK` tokens is one block, because the stretch of keys of smaller
    blocks would not be shorter.

    Args:
        builder: A graph with the inputs `input_ids` and `attention_mask`, int64 [batch, tokens].
        reach: How far to each side a token attends.
        heads: Query heads, which share one key and value head; a block's rows are its tokens, each
            with its heads one after the other.
        head_size: Width of a head.
    """
    op = builder.op

    def int64(*values: int) -> str:
        return builder.constant(values, np.int64)

    shape = op.Shape("input_ids")
    batch, tokens = (op.Gather(shape, int64(axis)) for axis in (0, 1))
    # One block, and more above the limit.
    is_long = op.Greater(tokens, int64(2 * reach + BLOCK))
    further = op.Div(op.Sub(tokens, int64(1)), int64(BLOCK))
    further = op.Mul(op.Cast(is_long, to=TensorProto.INT64), further)
    blocks = op.Add(further, int64(1))
    block = op.Div(op.Add(tokens, further), blocks)  # rounded up
    padded = op.Mul(blocks, block)
    pads = op.Concat(int64(0, 0, 0), op.Sub(padded, tokens), axis=0)
    mask = op.Pad("attention_mask", pads)
    places = _range(builder, padded)
    stretch = op.Min(padded, op.Add(block, int64(2 * reach)))
    # The first key of each block's stretch; at the ends of the text the stretch stays inside it.
    start = op.Sub(op.Mul(_range(builder, blocks), block), int64(reach))
    start = op.Max(start, int64(0))
    start = op.Min(start, op.Sub(padded, stretch))
    keys = op.Add(op.Unsqueeze(start, int64(1)), _range(builder, stretch))
    queries = op.Reshape(places, op.Concat(blocks, block, int64(1), axis=0))
    distance = op.Abs(op.Sub(queries, op.Unsqueeze(keys, int64(1))))
    is_far = op.Greater(distance, int64(reach))
    far = op.Mul(op.Cast(is_far, to=TensorProto.FLOAT), builder.constant(MASKED, np.float32))
    key_bias = _key_bias(builder, mask)
    padding = op.Gather(key_bias, keys, axis=1)
    bias = op.Add(far, op.Unsqueeze(padding, int64(2)))
    bias = op.Expand(op.Unsqueeze(bias, int64(3)), int64(1, 1, 1, heads, 1))
    return Blocks(
        ids=op.Pad("input_ids", pads),
        mask=mask,
        positions=op.Expand(places, op.Concat(batch, padded, axis=0)),
        batch=batch,
        tokens=tokens,
        padded=padded,
        key_bias=key_bias,
        keys=keys,
        bias=op.Reshape(bias, op.Concat(int64(0, 0, -1), stretch, axis=0)),
        queries_shape=op.Concat(int64(0), blocks, int64(-1, head_size), axis=0),
    )


def _key_bias(builder: GraphBuilder, mask: str) -> str:
    """Convert a mask int64 [batch, keys] to the bias of the scores, float32 [batch, keys]."""
    there = builder.op.Cast(mask, to=TensorProto.FLOAT)
    missing = builder.op.Sub(builder.constant(1, np.float32), there)
    return builder.op.Mul(missing, builder.constant(MASKED, np.float32))


def _range(builder: GraphBuilder, count: str) -> str:
    """Return 0, 1, 2 … as int64 [count] for a count int64 [1]."""
    zero, one = (builder.constant(number, np.int64) for number in (0, 1))
    return builder.op.Range(zero, builder.op.Squeeze(count), one)
