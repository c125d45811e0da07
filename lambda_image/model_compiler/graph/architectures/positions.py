"""How the tokens of encoders of BERT's kind get their positions."""

import numpy as np
from onnx import TensorProto

from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Floats

__all__ = ["BUCKETS", "bucket", "counted_from_0", "counted_from_padding", "relative_bias"]

#: MPNet's `relative_position_bucket` in `transformers/models/mpnet/modeling_mpnet.py` has these
#: numbers as defaults: 16 buckets for each direction, of which the distances up to 7 have one each.
BUCKETS = 32
EACH_WAY = BUCKETS // 2
EXACT = EACH_WAY // 2


def counted_from_0(builder: GraphBuilder, table: Floats) -> str:
    """Add the positions' vectors float32 [tokens, width] to a graph with `input_ids`."""
    tokens = builder.op.Gather(builder.op.Shape("input_ids"), builder.constant([1], np.int64))
    name, zero = builder.weight("positions", table), builder.constant([0], np.int64)
    return builder.op.Slice(name, zero, tokens, zero)


def counted_from_padding(builder: GraphBuilder, table: Floats, padding: int) -> str:
    """Add the positions' vectors float32 [batch, tokens, width] to a graph with `input_ids`.

    The first token has the position after the padding token's id, as in transformers'
    `create_position_ids_from_input_ids`. A padding token inside a text has its own id as its
    position and is not counted.
    """
    op, padding_id = builder.op, builder.constant(padding, np.int64)
    counted = op.Cast(op.Not(op.Equal("input_ids", padding_id)), to=TensorProto.INT64)
    count = op.CumSum(counted, builder.constant(1, np.int64))
    places = op.Add(op.Mul(count, counted), padding_id)
    # By row: a table of 8,194 positions is tens of megabytes, of which a short text needs little.
    return op.Gather(builder.weight("positions", table, by_row=True), places)


def relative_bias(builder: GraphBuilder, table: Floats, positions: int) -> str:
    """Add a bias float32 [1, heads, tokens, tokens] by distance to a graph with `input_ids`.

    See Raffel et al., 2019, https://arxiv.org/abs/1910.10683, section 2.1.

    Args:
        builder: The graph.
        table: The bias of each bucket, float32 [buckets, heads].
        positions: The token limit.
    """
    op = builder.op
    distances = range(1 - positions, positions)
    by_distance = table[[bucket(distance) for distance in distances]].T
    zero, one = (builder.constant(value, np.int64) for value in (0, 1))
    places = op.Range(zero, op.Gather(op.Shape("input_ids"), one), one)
    from_each = op.Sub(places, op.Unsqueeze(places, builder.constant([1], np.int64)))
    columns = op.Add(from_each, builder.constant(positions - 1, np.int64))
    bias = op.Gather(builder.weight("relative_bias", by_distance), columns, axis=1)
    return op.Unsqueeze(bias, builder.constant([0], np.int64))


def bucket(distance: int) -> int:
    """Return the bucket of a distance, which is the key's position minus the query's.

    From 8 on, a bucket begins at each power of the square root of 2. Squares keep this exact; the
    reference takes a logarithm in float32, with the same results.
    """
    far = abs(distance)
    shared = EXACT + (far * far // EXACT**2).bit_length() - 1
    return (EACH_WAY if distance > 0 else 0) + (far if far < EXACT else min(shared, EACH_WAY - 1))
