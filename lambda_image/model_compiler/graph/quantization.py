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
normalization amplifies, and neurons with large outgoing weights.

Layers with the same input quantize it once (`quantize`, then `matmul`). The row scale may be
applied later if the following operations are linear; `dequantize` applies it. `linear` does all
three.
"""

from collections.abc import Callable, Iterable, Mapping
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

    #: float32 [..., in], or uint8 with a zero point of 128.
    values: str
    #: float32 [..., 1], the scale of each row; None in fp32.
    scale: str | None


def linear(
    builder: GraphBuilder,
    value: str,
    weight: Floats,
    *,
    name: str,
    channels: Channels | None = None,
    zeros: str | None = None,
) -> str:
    """Multiply float32 [..., in] by a weight float32 [out, in] into float32 [..., out].

    There is no bias: the fused operators that follow add it. The input `channels` are multiplied in
    float32 for every precision. Callers may share `zeros`; see `zero_points`.
    """
    return linear_by_group(builder, value, {name: weight}, None, channels=channels, zeros=zeros)


def linear_by_group(
    builder: GraphBuilder,
    value: str,
    weights: Mapping[str, Floats],
    sizes: str | None,
    *,
    channels: Channels | None = None,
    zeros: str | None = None,
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

    exact, width = None, next(iter(weights.values())).shape[1]
    if builder.quantizes and channels is not None:
        unmasked = np.ones(width, np.float32)
        unmasked[channels] = 0
        exact = multiply(
            builder.op.Gather(value, builder.constant(channels, np.int64), axis=-1),
            lambda rows, name, weight: builder.op.MatMul(
                rows, builder.weight(f"{name}.outliers", weight[:, channels].T)
            ),
        )
        value = builder.op.Mul(value, builder.constant(unmasked, np.float32))
        weights = {name: weight * unmasked for name, weight in weights.items()}
    rows = quantize(builder, value, width=width, zeros=zeros)
    product = multiply(
        rows.values,
        lambda values, name, weight: matmul(
            builder, replace(rows, values=values), weight, name=name
        ),
    )
    product = dequantize(builder, product, rows)
    return product if exact is None else builder.op.Add(product, exact)


def quantize(builder: GraphBuilder, value: str, *, width: int, zeros: str | None = None) -> Rows:
    """Quantize float32 [..., width] to uint8 with a scale per row; see `zero_points` for `zeros`.

    In fp32, or in a layer that is kept in float32, the rows are returned unchanged.
    """
    if not builder.quantizes:
        return Rows(value, None)
    largest = builder.op.ReduceMax(builder.op.Abs(value), builder.int64(-1), keepdims=1)
    # A row of zeros has a scale of zero, so `dequantize` returns zeros whatever the values are.
    scale = builder.op.Mul(largest, builder.constant(1 / INT8_MAX, np.float32))
    if zeros is None:
        zeros = _zeros_of_shape(builder, builder.op.Shape(scale))
    # One block per row: the operator has no other way to give each row of a batch its own scale.
    return Rows(builder.op.QuantizeLinear(value, scale, zeros, axis=-1, block_size=width), scale)


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
        builder.constant(ZERO_POINT, np.uint8),
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


def zero_points(builder: GraphBuilder, like: str) -> str | None:
    """Return the zero points of rows [*, width], where `like` has the shape [*].

    All layers with inputs of the same leading dimensions share one tensor; None in fp32.
    """
    if not builder.int8:
        return None
    shape = builder.op.Concat(builder.op.Shape(like), builder.int64(1), axis=0)
    return _zeros_of_shape(builder, shape)


def embedding(
    builder: GraphBuilder, ids: str, table: Floats, *, name: str, scale: float = 1.0
) -> str:
    """Look up ids [batch, tokens] in a table float32 [vocabulary, width], times `scale`.

    In int8 each row of the table has its own scale; only the requested rows are read.
    """
    factor = np.float32(scale)
    if not builder.int8:
        return builder.op.Gather(builder.weight(name, table * factor, by_row=True), ids)
    quantized, scales = quantize_rows(table)
    rows = builder.op.Gather(builder.weight(name, quantized, by_row=True), ids)
    factors = builder.weight(f"{name}.scale", (scales * factor)[:, None], by_row=True)
    return builder.op.Mul(
        builder.op.Cast(rows, to=TensorProto.FLOAT), builder.op.Gather(factors, ids)
    )


def _zeros_of_shape(builder: GraphBuilder, shape: str) -> str:
    return builder.op.Expand(builder.constant(ZERO_POINT, np.uint8), shape)


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


def amplified_channels(gains: Iterable[Floats]) -> Channels:
    """Return the channels of the residual stream that normalizations amplify most, in order.

    The gains [width] are those of all normalizations. A channel that one of them amplifies is also
    large in the inputs of the others, since all use one stream.
    """
    strength = np.max([np.abs(gain) / np.median(np.abs(gain)) for gain in gains], axis=0)
    return _strongest(strength, max(1, len(strength) // HIDDEN_SHARE))


def strong_inputs(weight: Floats) -> Channels:
    """Return the inputs of a weight [out, in] with the longest columns, in order."""
    lengths = np.sqrt((weight.astype(np.float64) ** 2).sum(axis=0))
    return _strongest(lengths, max(1, weight.shape[1] // WIDE_SHARE))


def _strongest(strength: npt.NDArray[np.floating], count: int) -> Channels:
    return np.sort(np.argsort(-strength, kind="stable")[:count]).astype(np.int64)
