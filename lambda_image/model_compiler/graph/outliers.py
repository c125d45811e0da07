"""Multiplies the few channels with very large values in float32 instead of int8.

A row has one scale for all its channels. In trained transformers, almost all of the norm of some
tokens is in one or two channels, which are always the same (Kovaleva et al., 2021,
arXiv:2105.06990; Dettmers et al., 2022, arXiv:2208.07339). With a scale for these, the other
values of the row would be rounded to zero. These channels are therefore multiplied in float32.

The channels are selected from the weights alone: those that a normalization amplifies, and neurons
with large outgoing weights. So the selection is the same on every machine.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Precision, linear

__all__ = ["Channels", "amplified_channels", "linear_with_outliers", "strong_inputs"]

Floats = npt.NDArray[np.float32]
Channels = npt.NDArray[np.int64]

#: One of this many channels is kept in float32; on MiniLM's weights, more do not help.
HIDDEN_SHARE = 48
WIDE_SHARE = 96


def amplified_channels(gains: Iterable[Floats]) -> Channels:
    """Return the channels of the residual stream that normalizations amplify most, in order.

    Args:
        gains: The gain [width] of each of the model's normalizations. A channel that one of them
            amplifies is also large in the inputs of the others, since all use one stream.
    """
    strength = np.max([np.abs(gain) / np.median(np.abs(gain)) for gain in gains], axis=0)
    return _strongest(strength, max(1, len(strength) // HIDDEN_SHARE))


def strong_inputs(weight: Floats) -> Channels:
    """Return the inputs of a weight [out, in] whose columns are longest, in order."""
    lengths = np.sqrt((weight.astype(np.float64) ** 2).sum(axis=0))
    return _strongest(lengths, max(1, weight.shape[1] // WIDE_SHARE))


def linear_with_outliers(
    builder: GraphBuilder,
    value: str,
    weight: Floats,
    channels: Channels | None,
    *,
    name: str,
    precision: Precision,
    zeros: str | None = None,
) -> str:
    """Do the same as `linear`, with some input channels in float32 for every precision."""
    if precision is Precision.FP32 or channels is None:
        return linear(builder, value, weight, name=name, precision=precision, zeros=zeros)
    rest, kept = weight.copy(), np.ones(weight.shape[1], np.float32)
    rest[:, channels] = 0
    kept[channels] = 0
    exact = builder.op.MatMul(
        builder.op.Gather(value, builder.constant(channels, np.int64), axis=-1),
        builder.weight(f"{name}.outliers", weight[:, channels].T),
    )
    others = builder.op.Mul(value, builder.constant(kept, np.float32))
    product = linear(builder, others, rest, name=name, precision=precision, zeros=zeros)
    return builder.op.Add(product, exact)


def _strongest(strength: npt.NDArray[np.floating], count: int) -> Channels:
    return np.sort(np.argsort(-strength, kind="stable")[:count]).astype(np.int64)
