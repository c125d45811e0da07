"""Linear layers and embedding tables, in fp32 or in int8 with a scale per row and channel.

An int8 linear layer has one scale per output channel of its weight, and one per row (token) of its
input, computed at run time from the largest absolute value of that row. With one scale for the
whole input, a text's vector would depend on the rest of the batch, and one outlier would reduce the
precision of every other token.

Some channels of a row can be much larger than the others. In trained transformers, almost all of
the norm of some tokens is in one or two channels, which are always the same (Kovaleva et al., 2021,
arXiv:2105.06990; Dettmers et al., 2022, arXiv:2208.07339). With a scale for these, the other values
of the row would be rounded to zero. `linear` multiplies them in float32. They are
selected from the weights alone, so that the selection is the same on every machine: those that a
normalization or a layer makes large, and neurons with large outgoing weights.

Layers with the same input quantize it once (`quantize`, then `matmul`). The row scale may be
applied later if the following operations are linear; `dequantize` applies it. `linear` does all
three.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from model_compiler.graph.builder import GraphBuilder

Floats = npt.NDArray[np.float32]
Channels = npt.NDArray[np.int64]

#: Symmetric int8: -127 to 127, so that a weight and its negative are equally exact.
INT8_MAX = 127
#: Activations are uint8 with a zero point of 128 instead of int8, because the kernels of x86 (VNNI)
#: require unsigned activations. int8 uses a fallback there that is 25 times slower; on ARM64 both
#: have kernels of the same speed.
ZERO_POINT = 128
#: That of rows without large negative values, such as those after GELU: the positive ones have
#: almost twice as many steps.
LOW_ZERO_POINT = 16
UINT8_MAX = 255
#: The smallest absolute value for which a weight's scale is computed, so that zeros stay zeros.
SMALLEST = 1e-9
#: Rows of a table that are quantized at a time, so that a table of gigabytes is never copied.
CHUNK = 8192
#: One of this many channels is kept in float32; on MiniLM's weights, more do not help.
HIDDEN_SHARE = 48
WIDE_SHARE = 96


@dataclass(frozen=True, slots=True)
class Rows:
    """The input of linear layers."""

    #: float32 [..., in], or uint8.
    values: str
    #: float32 [..., 1], the scale of each row; None in fp32.
    scale: str | None
    #: The number that stands for 0.
    zero_point: int = ZERO_POINT


class ZeroPoints:
    """The zero points of rows [*, width] of a graph, where the value `like` has the shape [*].

    All layers with inputs of the same leading dimensions share one tensor for each zero point.
    """

    def __init__(self, builder: GraphBuilder, like: str) -> None:
        self._builder = builder
        self._shape = builder.op.Concat(builder.op.Shape(like), builder.int64(1), axis=0)
        self._tensors: dict[int, str] = {}

    def add(self, zero_point: int) -> str:
        """Return the tensor of a zero point, uint8 [*, 1]."""
        if zero_point not in self._tensors:
            value = self._builder.constant(zero_point, np.uint8)
            self._tensors[zero_point] = self._builder.op.Expand(value, self._shape)
        return self._tensors[zero_point]


def linear(
    builder: GraphBuilder,
    value: str,
    weight: Floats,
    *,
    name: str,
    outliers: int = 0,
    zeros: ZeroPoints | None = None,
    lowest: float | None = None,
    added: Sequence[str] = (),
) -> str:
    """Multiply float32 [..., in] by a weight float32 [out, in] into float32 [..., out].

    The bias is one of the values that are `added`, or of a fused operator that follows. The last
    inputs, as many as `outliers`, are multiplied in float32 for every precision. Callers may share
    `zeros`; see `ZeroPoints`, and `quantize` for `lowest`.
    """
    return linear_by_group(
        builder,
        value,
        {name: weight},
        None,
        outliers=outliers,
        zeros=zeros,
        lowest=lowest,
        added=added,
    )


def linear_by_group(
    builder: GraphBuilder,
    value: str,
    weights: Mapping[str, Floats],
    sizes: str | None,
    *,
    outliers: int = 0,
    zeros: ZeroPoints | None = None,
    lowest: float | None = None,
    added: Sequence[str] = (),
) -> str:
    """Multiply groups of rows, each by its own weight; see `linear`.

    The rows are float32 [rows, in], those of one group together, and `sizes` their numbers, int64
    [groups]; or [..., in] of one group without sizes. The weights, float32 [out, in], have names in
    the graph.
    """

    def multiply(rows: str, by: Callable[[str, str, Floats], str]) -> str:
        if sizes is None:
            return by(rows, *next(iter(weights.items())))
        groups = builder.node_with_outputs("Split", rows, sizes, outputs=len(weights), axis=0)
        products = [by(group, *entry) for group, entry in zip(groups, weights.items(), strict=True)]
        return builder.op.Concat(*products, axis=0)

    terms, width = list(added), next(iter(weights.values())).shape[1]
    if builder.quantizes and outliers:
        width -= outliers
        value, strong = builder.split(value, [width, outliers])
        exact = multiply(
            strong,
            lambda rows, name, weight: builder.op.MatMul(
                rows, builder.weight(f"{name}.outliers", weight[:, width:].T)
            ),
        )
        terms.insert(0, exact)
        weights = {name: weight[:, :width] for name, weight in weights.items()}
    rows = quantize(builder, value, width=width, zeros=zeros, lowest=lowest)
    product = multiply(
        rows.values,
        lambda values, name, weight: matmul(
            builder, replace(rows, values=values), weight, name=name
        ),
    )
    terms.insert(0, dequantize(builder, product, rows))
    return builder.op.Sum(*terms) if len(terms) > 1 else terms[0]


def quantize(
    builder: GraphBuilder,
    value: str,
    *,
    width: int,
    zeros: ZeroPoints | None = None,
    lowest: float | None = None,
) -> Rows:
    """Quantize float32 [..., width] to uint8 with a scale per row.

    Callers may share `zeros`. No component is below `lowest`, a small negative number, if that is
    given. In fp32, or in a layer that is kept in float32, the rows are returned unchanged.
    """
    if not builder.quantizes:
        return Rows(value, None)
    op, row = builder.op, builder.int64(-1)
    if lowest is None:
        zero_point = ZERO_POINT
        largest = op.ReduceMax(op.Abs(value), row, keepdims=1)
        # A row of zeros has a scale of zero, so `dequantize` returns zeros whatever the values are.
        scale = op.Mul(largest, builder.constant(1 / INT8_MAX, np.float32))
    else:
        zero_point = LOW_ZERO_POINT
        largest = op.ReduceMax(value, row, keepdims=1)
        scale = op.Mul(largest, builder.constant(1 / (UINT8_MAX - zero_point), np.float32))
        # So that the lowest value is a number from 0 on.
        scale = op.Max(scale, builder.constant(-lowest / zero_point, np.float32))
    points = (zeros or ZeroPoints(builder, op.Squeeze(scale, row))).add(zero_point)
    # One block per row: the operator has no other way to give each row of a batch its own scale.
    quantized = op.QuantizeLinear(value, scale, points, axis=-1, block_size=width)
    return Rows(quantized, scale, zero_point)


def matmul(builder: GraphBuilder, rows: Rows, weight: Floats, *, name: str) -> str:
    """Multiply rows [..., in] by a weight float32 [out, in] into float32 [..., out].

    Each row of the result must still be multiplied by its scale: see `dequantize`.
    """
    if rows.scale is None:
        return builder.op.MatMul(rows.values, builder.weight(name, weight.T))
    quantized, scales = quantize_rows(weight)
    inputs = [
        rows.values,
        builder.weight(name, quantized.T),
        builder.constant(1, np.float32),
        builder.weight(f"{name}.scale", scales),
        builder.constant(rows.zero_point, np.uint8),
    ]
    return builder.microsoft.MatMulIntegerToFloat(*inputs)


def dequantize(builder: GraphBuilder, value: str, *rows: Rows) -> str:
    """Multiply each row of float32 [..., out] by the scales of the rows it was computed from."""
    scales = [entry.scale for entry in rows if entry.scale is not None]
    if not scales:
        return value
    scale = scales[0]
    for factor in scales[1:]:
        scale = builder.op.Mul(scale, factor)
    return builder.op.Mul(value, scale)


def embedding(
    builder: GraphBuilder,
    ids: str,
    table: Floats,
    *,
    name: str,
    scale: float = 1.0,
    order: Channels | None = None,
) -> str:
    """Look up ids [batch, tokens] in a table float32 [vocabulary, width], times `scale`.

    In int8 each row of the table has its own scale, only the requested rows are read, and their
    components are in `order`, if that is given.
    """
    factor = np.float32(scale)
    if not builder.int8:
        return builder.op.Gather(builder.weight(name, table * factor, by_row=True), ids)
    quantized, scales = quantize_rows(table)
    if order is not None:
        quantized = quantized[:, order]
    rows = builder.op.Gather(builder.weight(name, quantized, by_row=True), ids)
    factors = builder.weight(f"{name}.scale", (scales * factor)[:, None], by_row=True)
    return builder.op.Mul(
        builder.op.Cast(rows, to=TensorProto.FLOAT), builder.op.Gather(factors, ids)
    )


def quantize_rows(weight: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    """Quantize a matrix with one scale for each row: [rows, columns] int8 and [rows] float32."""
    quantized = np.empty(weight.shape, np.int8)
    scales = np.empty(len(weight), np.float32)
    for start in range(0, len(weight), CHUNK):
        rows = weight[start : start + CHUNK]
        scale = (np.maximum(np.abs(rows).max(axis=1), SMALLEST) / INT8_MAX).astype(np.float32)
        values = np.clip(np.rint(rows / scale[:, None]), -INT8_MAX, INT8_MAX)
        quantized[start : start + CHUNK] = values
        scales[start : start + CHUNK] = scale
    return quantized, scales


def centered(weight: Floats, outliers: int) -> Floats:
    """Return a weight [out, in] with the same products of rows that have the sum 0.

    For each output a number is taken from all of its weights, so that the largest and the smallest
    are equally far from 0, which makes the scale as small as it can be. The last inputs, as many as
    `outliers`, have no part in the scale.
    """
    scaled = weight[:, : weight.shape[1] - outliers]
    middle: Floats = (scaled.max(axis=1, keepdims=True) + scaled.min(axis=1, keepdims=True)) / 2
    return weight - middle


def large_channels(gains: Iterable[Floats], weights: Iterable[Floats]) -> Channels:
    """Return the channels of the residual stream that are largest, in order.

    The gains [width] are those of all normalizations, and the weights [width, in] those of the
    layers whose results the stream adds up. A channel that one gain or one layer makes large is
    large for the others, since all use one stream.
    """
    lengths = (np.sqrt((weight.astype(np.float64) ** 2).sum(axis=1)) for weight in weights)
    sizes = [*map(np.abs, gains), *lengths]
    strength = np.max([size / max(np.median(size), SMALLEST) for size in sizes], axis=0)
    return _strongest(strength, max(1, len(strength) // HIDDEN_SHARE))


def strong_last(strong: Channels, width: int) -> Channels:
    """Return an order of all channels in which the strong ones are the last."""
    return np.concatenate([np.setdiff1d(np.arange(width), strong), strong])


def strong_inputs(weight: Floats) -> Channels:
    """Return the inputs of a weight [out, in] with the longest columns, in order."""
    lengths = np.sqrt((weight.astype(np.float64) ** 2).sum(axis=0))
    return _strongest(lengths, max(1, weight.shape[1] // WIDE_SHARE))


def _strongest(strength: npt.NDArray[np.floating], count: int) -> Channels:
    return np.sort(np.argsort(-strength, kind="stable")[:count]).astype(np.int64)
