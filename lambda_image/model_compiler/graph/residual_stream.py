"""The residual stream of encoders that normalize before each block, in a basis that int8 can round.

In trained transformers, some channels of the stream are much larger than the others, in all tokens
or in the first ones (Sun et al., 2024, https://arxiv.org/abs/2402.17762), and an int8 row with one
scale rounds the others to zero. A rotation of the stream spreads them over all channels (Ashkboos
et al., 2024, https://arxiv.org/abs/2404.00456). It costs nothing at run time: it is multiplied into
the weights that write to the stream and read from it, and a root mean square does not depend on it.
For this, the gains of the normalizations are multiplied into the weights that read. Where a
normalization also subtracts the mean, the weights that write subtract it instead.

The rotation is a Hadamard matrix with random signs, applied as sums and differences in a fixed
order, so that every machine gets the same bytes.
"""

import hashlib
from dataclasses import dataclass

import numpy as np

from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Floats

#: Rows that are rotated at a time: they fit the cache.
CHUNK = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ResidualStream:
    """Adds the normalizations of one encoder, and takes its weights to the basis of the stream.

    The normalizations subtract the mean (LayerNormalization) or not (RMSNorm). The basis is
    rotated, or the model's own.
    """

    builder: GraphBuilder
    width: int
    epsilon: float
    subtracts_mean: bool
    rotated: bool

    @property
    def _block(self) -> int:
        """The largest power of two that divides the width."""
        return self.width & -self.width

    def table(self, table: Floats) -> Floats:
        """Return an embedding table [vocabulary, width] in the basis of the stream."""
        return rotate(table, self._block) if self.rotated else table

    def start(self, value: str) -> str:
        """Return looked-up rows of the table as the normalizations need them."""
        if not self.rotated or not self.subtracts_mean:
            return value
        op = self.builder.op
        ones = rotate(np.ones((1, self.width), np.float32), self._block)
        mean = op.MatMul(value, self.builder.weight("mean", ones.T / np.float32(self.width)))
        return op.Sub(value, op.Mul(mean, self.builder.weight("ones", ones[0])))

    def writer(self, weight: Floats) -> Floats:
        """Return a weight [width, in] or bias [width] of a product that is added to the stream."""
        if not self.rotated:
            return weight
        if self.subtracts_mean:
            weight = weight - weight.mean(axis=0, keepdims=True)
        return np.ascontiguousarray(rotate(np.ascontiguousarray(weight.T), self._block).T)

    def reader(self, weight: Floats, gain: Floats | None) -> Floats:
        """Return a weight [out, width] that reads `normalized` with the same gain, or the table."""
        if not self.rotated:
            return weight
        return rotate(weight if gain is None else weight * gain, self._block)

    def normalized(
        self, value: str, gain: Floats, *, name: str, shift: Floats | None = None
    ) -> str:
        """Normalize rows of the stream for the weights that read them.

        Gain and shift are [width]; a rotated stream has no shift.
        """
        op = self.builder.op
        if self.rotated:
            ones = self.builder.constant(np.ones(self.width), np.float32)
            return self.builder.root_mean_square_norm(value, ones, epsilon=self.epsilon)
        weight = self.builder.weight(name, gain)
        if not self.subtracts_mean:
            return self.builder.root_mean_square_norm(value, weight, epsilon=self.epsilon)
        shifts = [] if shift is None else [self.builder.weight(f"{name}.shift", shift)]
        return op.LayerNormalization(
            value, weight, *shifts, axis=-1, epsilon=self.epsilon, stash_type=1
        )

    def output(self, value: str, gain: Floats, *, name: str, shift: Floats | None = None) -> str:
        """Normalize rows of the stream, in the model's own basis; see `normalized`."""
        hidden = self.normalized(value, gain, name=name, shift=shift)
        if not self.rotated:
            return hidden
        op, builder = self.builder.op, self.builder
        back = rotate(np.eye(self._block, dtype=np.float32), self._block).T
        blocks = op.Reshape(hidden, builder.int64(0, 0, -1, self._block))
        blocks = op.MatMul(blocks, builder.weight("rotation", back))
        hidden = op.Reshape(blocks, builder.int64(0, 0, -1))
        return op.Mul(hidden, builder.weight(name, gain))


def rotate(array: Floats, block: int) -> Floats:
    """Rotate the rows of [rows, width], each in blocks of a power of two.

    A component of the result is a sum of all components of its block with signs, divided by the
    square root of their number. Lengths and products of rows do not change.
    """
    bits = np.frombuffer(hashlib.shake_256(b"signs").digest(-(-block // 8)), np.uint8)
    signs = 1 - 2 * np.unpackbits(bits)[:block].astype(np.float32)
    factors = np.tile(signs / np.float32(block**0.5), array.shape[1] // block)
    rotated = np.empty_like(array)
    for start in range(0, len(array), CHUNK):
        # Transposed, so that the inner loops are over rows, which lie side by side.
        sums = np.ascontiguousarray((array[start : start + CHUNK] * factors).T)
        other = np.empty_like(sums)
        half = 1
        while half < block:
            pairs = sums.reshape(-1, 2, half, sums.shape[1])
            results = other.reshape(pairs.shape)
            np.add(pairs[:, 0], pairs[:, 1], out=results[:, 0])
            np.subtract(pairs[:, 0], pairs[:, 1], out=results[:, 1])
            sums, other = other, sums
            half *= 2
        rotated[start : start + CHUNK] = sums.T
    return rotated
