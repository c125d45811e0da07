"""Linear layers and embedding tables, in fp32 or in int8 by row and channel.

An int8 linear layer has one scale for each output channel of its weight, and one for each row (a
token) of its input, taken from that row's own greatest magnitude at run time. A scale for the whole
input would make a text's vector depend on what else is in the batch, and would let one outlier cost
every other token its precision.
"""

from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from model_compiler.graph import MICROSOFT, GraphBuilder

__all__ = ["Precision", "embedding", "linear"]

#: Symmetric int8: -127 to 127, so that a weight and its negative are equally exact.
LARGEST = 127
#: The smallest magnitude that a scale is made for, so that a row of zeros stays a row of zeros.
SMALLEST = 1e-9


class Precision(StrEnum):
    """How weights are kept and multiplied."""

    FP32 = "fp32"
    INT8 = "int8"


def linear(
    builder: GraphBuilder,
    value: str,
    weight: npt.NDArray[np.float32],
    *,
    name: str,
    precision: Precision,
) -> str:
    """Multiply float32 [..., in] by a weight float32 [out, in] into float32 [..., out].

    There is no bias: the fused operators that follow take it.
    """
    if precision is Precision.FP32:
        return builder.node("MatMul", [value, builder.weight(name, weight.T)])
    quantized, scales = _by_row(weight)
    magnitude = builder.node(
        "ReduceMax", [builder.node("Abs", [value]), builder.constant([-1], np.int64)], keepdims=1
    )
    magnitude = builder.node("Max", [magnitude, builder.constant(SMALLEST, np.float32)])
    step = builder.constant(1 / LARGEST, np.float32)
    # uint8 around 128 rather than int8: the kernels of x86 and ARM64 take it as it is.
    zero = builder.constant(128, np.uint8)
    scaled = builder.node("QuantizeLinear", [builder.node("Div", [value, magnitude]), step, zero])
    product = builder.node(
        "MatMulIntegerToFloat",
        [
            scaled,
            builder.weight(name, quantized.T),
            step,
            builder.weight(f"{name}.scale", scales),
            zero,
        ],
        domain=MICROSOFT,
    )
    return builder.node("Mul", [product, magnitude])


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
        return builder.node("Gather", [builder.weight(name, table * factor), ids])
    quantized, scales = _by_row(table)
    rows = builder.node("Gather", [builder.weight(name, quantized), ids])
    factors = builder.weight(f"{name}.scale", (scales * factor)[:, None])
    return builder.node(
        "Mul",
        [
            builder.node("Cast", [rows], to=TensorProto.FLOAT),
            builder.node("Gather", [factors, ids]),
        ],
    )


def _by_row(
    weight: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Quantize a matrix with one scale for each row: [rows, columns] int8 and [rows] float32."""
    largest: npt.NDArray[Any] = np.abs(weight).max(axis=1)
    scales = (np.maximum(largest, SMALLEST) / LARGEST).astype(np.float32)
    quantized = np.clip(np.rint(weight / scales[:, None]), -LARGEST, LARGEST)
    return quantized.astype(np.int8), scales
