"""Linear layers and embedding tables, in fp32 or in int8 by row and channel.

An int8 linear layer has one scale for each output channel of its weight, and one for each row (a
token) of its input, taken from that row's own greatest magnitude at run time. A scale for the whole
input would make a text's vector depend on what else is in the batch, and would let one outlier cost
every other token its precision.

The input's codes are made once and read by every layer that takes the same input (`quantize`, then
`multiply`), and a product may go on without its row's step where what follows divides it away
again; `restore` puts it back, `linear` does all three.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from model_compiler.graph.builder import MICROSOFT, GraphBuilder

__all__ = [
    "Precision",
    "Rows",
    "embedding",
    "linear",
    "multiply",
    "quantize",
    "restore",
    "zero_points",
]

#: Symmetric int8: -127 to 127, so that a weight and its negative are equally exact.
LARGEST = 127
#: The code of zero: uint8 around 128 rather than int8, because the kernels of x86 (VNNI) take the
#: activation unsigned. int8 goes through a fallback there that is 25 times slower; on ARM64 both
#: have kernels of the same speed.
ZERO = 128
#: The smallest magnitude that a weight's scale is made for, so that zeros stay zeros.
SMALLEST = 1e-9
#: Rows of a table that are quantized at a time: tables of gigabytes are never copied whole.
CHUNK = 8192


class Precision(StrEnum):
    """How weights are kept and multiplied."""

    FP32 = "fp32"
    INT8 = "int8"


@dataclass(frozen=True, slots=True)
class Rows:
    """What linear layers read.

    Attributes:
        codes: float32 [..., in] as it came, or its uint8 codes around 128.
        step: float32 [..., 1], what a difference of one code is worth; None in fp32.
    """

    codes: str
    step: str | None


def linear(
    builder: GraphBuilder,
    value: str,
    weight: npt.NDArray[np.float32],
    *,
    name: str,
    precision: Precision,
    zeros: str | None = None,
) -> str:
    """Multiply float32 [..., in] by a weight float32 [out, in] into float32 [..., out].

    There is no bias: the fused operators that follow take it.
    """
    rows = quantize(builder, value, width=weight.shape[1], precision=precision, zeros=zeros)
    return restore(builder, multiply(builder, rows, weight, name=name), rows)


def quantize(
    builder: GraphBuilder,
    value: str,
    *,
    width: int,
    precision: Precision,
    zeros: str | None = None,
) -> Rows:
    """Give each row of float32 [..., width] its own step and turn it into codes.

    Args:
        builder: the graph.
        value: the rows.
        width: how long a row is.
        precision: in fp32 the rows stay what they are.
        zeros: the zero points of these rows, where the caller shares them; see `zero_points`.
    """
    if precision is Precision.FP32:
        return Rows(value, None)
    largest = builder.node(
        "ReduceMax", [builder.node("Abs", [value]), builder.constant([-1], np.int64)], keepdims=1
    )
    # A row of zeros has a step of zero: its codes mean nothing, and `restore` makes them zeros.
    step = builder.node("Mul", [largest, builder.constant(1 / LARGEST, np.float32)])
    if zeros is None:
        zeros = _zeros_of_shape(builder, builder.node("Shape", [step]))
    # One block a row: the operator has no other way to give the rows of a batch their own steps.
    codes = builder.node("QuantizeLinear", [value, step, zeros], axis=-1, block_size=width)
    return Rows(codes, step)


def multiply(
    builder: GraphBuilder, rows: Rows, weight: npt.NDArray[np.float32], *, name: str
) -> str:
    """Multiply rows [..., in] by a weight float32 [out, in] into float32 [..., out].

    Each row of the result is still to be multiplied by its step: see `restore`.
    """
    if rows.step is None:
        return builder.node("MatMul", [rows.codes, builder.weight(name, weight.T)])
    quantized, scales = _by_row(weight)
    inputs = [
        rows.codes,
        builder.weight(name, quantized.T),
        builder.constant(1, np.float32),
        builder.weight(f"{name}.scale", scales),
        builder.constant(ZERO, np.uint8),
    ]
    return builder.node("MatMulIntegerToFloat", inputs, domain=MICROSOFT)


def restore(builder: GraphBuilder, value: str, *rows: Rows) -> str:
    """Multiply each row of float32 [..., out] by the steps of the rows that it was made from."""
    steps = [entry.step for entry in rows if entry.step is not None]
    if not steps:
        return value
    step = steps[0]
    for other in steps[1:]:
        step = builder.node("Mul", [step, other])
    return builder.node("Mul", [value, step])


def zero_points(builder: GraphBuilder, like: str, precision: Precision) -> str | None:
    """Return the zero points of rows [*, width], where `like` has the shape [*].

    One tensor for all layers whose inputs have the same leading dimensions; None in fp32.
    """
    if precision is Precision.FP32:
        return None
    shape = builder.node("Shape", [like])
    one = builder.constant([1], np.int64)
    return _zeros_of_shape(builder, builder.node("Concat", [shape, one], axis=0))


def embedding(
    builder: GraphBuilder,
    ids: str,
    table: npt.NDArray[np.float32],
    *,
    name: str,
    precision: Precision,
    scale: float = 1.0,
) -> str:
    """Look ids [batch, tokens] up in a table float32 [vocabulary, width], times `scale`.

    In int8 each row of the table has its own scale; only the rows that are asked for are read.
    """
    factor = np.float32(scale)
    if precision is Precision.FP32:
        return builder.node("Gather", [builder.weight(name, table * factor, by_row=True), ids])
    quantized, scales = _by_row(table)
    rows = builder.node("Gather", [builder.weight(name, quantized, by_row=True), ids])
    factors = builder.weight(f"{name}.scale", (scales * factor)[:, None], by_row=True)
    return builder.node(
        "Mul",
        [
            builder.node("Cast", [rows], to=TensorProto.FLOAT),
            builder.node("Gather", [factors, ids]),
        ],
    )


def _zeros_of_shape(builder: GraphBuilder, shape: str) -> str:
    return builder.node("Expand", [builder.constant(ZERO, np.uint8), shape])


def _by_row(
    weight: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Quantize a matrix with one scale for each row: [rows, columns] int8 and [rows] float32."""
    quantized = np.empty(weight.shape, np.int8)
    scales = np.empty(len(weight), np.float32)
    for start in range(0, len(weight), CHUNK):
        rows = weight[start : start + CHUNK]
        scale = (np.maximum(np.abs(rows).max(axis=1), SMALLEST) / LARGEST).astype(np.float32)
        codes = np.clip(np.rint(rows / scale[:, None]), -LARGEST, LARGEST)
        quantized[start : start + CHUNK] = codes
        scales[start : start + CHUNK] = scale
    return quantized, scales
