"""Writes many float32 as JSON numbers at once, three times as fast as one by one.

Every number takes 16 bytes: a sign or a space, `0.`, twelve digits, a comma. Twelve digits after
the point tell apart all float32 from 2e-5 up (two neighbours there are 2⁻³⁹ ≈ 1.8e-12 apart, and a
reader takes the nearest), so reading them back gives every float32 to the last bit. The few that
are smaller, and those of 1 and more, are written one by one, in scientific notation, which fits
into the same 16 bytes.

The shortest form of a number would take 12.4 bytes on average (768 dimensions): this trades bytes
for time. Whoever counts bytes asks for base64, which takes 5.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:  # see quick_start
    import numpy.typing as npt

__all__ = ["NUMBER_BYTES", "write_rows"]

#: Bytes of one number and its comma.
NUMBER_BYTES = 16
#: Rows are taken in blocks that fit, with what is computed from them, into a core's own cache.
_BLOCK_NUMBERS = 24_576
#: In units of 10⁻⁵: the first five digits tell.
_SMALLEST = 2


def _table(texts: list[str]) -> npt.NDArray[np.uint32]:
    """Return texts of four characters as numbers whose bytes they are."""
    return np.frombuffer("".join(texts).encode(), dtype=np.uint32)


class _Tables:
    """What four digits look like, by their value. Made when first needed: 2 ms."""

    def __init__(self) -> None:
        #: Sign, 0, point and first digit; negative numbers' from 10 on.
        self.head = _table([f"{sign}0.{digit}" for sign in " -" for digit in range(10)])
        self.middle = _table([f"{digits:04}" for digits in range(10_000)])
        self.tail = _table([f"{digits:03}," for digits in range(1000)])


_tables: list[_Tables] = []


def write_rows(vectors: npt.NDArray[np.float32]) -> list[bytes]:
    """Write each row of float32 [n, d], all of them finite, as a JSON array."""
    if not _tables:
        _tables.append(_Tables())
    count, dimension = vectors.shape
    step = min(count, max(1, _BLOCK_NUMBERS // dimension))
    scratch = _Scratch((step, dimension))
    rows: list[bytes] = []
    for start in range(0, count, step):
        block = vectors[start : start + step]
        if len(block) < step:
            scratch = _Scratch(block.shape)
        _write(block, _tables[0], scratch)
        # The last comma makes way for the bracket.
        rows += [b"[%b]" % row.tobytes()[:-1] for row in scratch.words]
    return rows


class _Scratch:
    """Arrays that every block uses again: fresh ones would cost more than the arithmetic."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.scaled = np.empty(shape)
        self.first = np.empty(shape)
        self.high = np.empty(shape, dtype=np.int32)
        self.low = np.empty(shape, dtype=np.int32)
        self.part = np.empty(shape, dtype=np.int32)
        self.product = np.empty(shape, dtype=np.int32)
        self.odd = np.empty(shape, dtype=np.bool_)
        self.carry = np.empty(shape, dtype=np.bool_)
        self.word = np.empty(shape, dtype=np.uint32)
        #: What is written: four words of four bytes for each number.
        self.words = np.empty((*shape, 4), dtype=np.uint32)


def _write(vectors: npt.NDArray[np.float32], tables: _Tables, scratch: _Scratch) -> None:
    scaled, first, words = scratch.scaled, scratch.first, scratch.words
    odd, carry = scratch.odd, scratch.carry
    high, low, part, product = scratch.high, scratch.low, scratch.part, scratch.product
    np.abs(vectors, out=scaled)
    if scaled.max() >= 1:
        # As zeros they are among those that are patched below.
        scaled[scaled >= 1] = 0
    # A float32 times 10⁵ has 41 bits at the most, so that in float64 nothing is lost.
    np.multiply(scaled, 1e5, out=scaled)
    np.floor(scaled, out=first)
    np.subtract(scaled, first, out=scaled)
    np.multiply(scaled, 1e7, out=scaled)
    np.rint(scaled, out=scaled)
    np.less(first, _SMALLEST, out=odd)
    np.copyto(high, first, casting="unsafe")
    np.copyto(low, scaled, casting="unsafe")
    # What rounds up to a whole carries over; never to 1, as the float32 before it is 0.99999994.
    np.equal(low, 10_000_000, out=carry)
    if carry.any():
        np.add(high, carry, out=high)
        low[carry] = 0
    np.floor_divide(high, 10_000, out=part)
    np.multiply(part, 10_000, out=product)
    np.subtract(high, product, out=high)
    # The sign bit, spread over the whole number, lets ten through.
    np.right_shift(vectors.view(np.int32), 31, out=product)
    np.bitwise_and(product, 10, out=product)
    np.add(part, product, out=part)
    # Clipping never happens, but is faster than raising an error that cannot be.
    words[:, :, 0] = tables.head.take(part, out=scratch.word, mode="clip")
    words[:, :, 1] = tables.middle.take(high, out=scratch.word, mode="clip")
    np.floor_divide(low, 1000, out=part)
    np.multiply(part, 1000, out=product)
    np.subtract(low, product, out=low)
    words[:, :, 2] = tables.middle.take(part, out=scratch.word, mode="clip")
    words[:, :, 3] = tables.tail.take(low, out=scratch.word, mode="clip")
    places = np.flatnonzero(odd)
    characters = words.reshape(-1).data.cast("B")
    for place, value in zip(places.tolist(), vectors.reshape(-1)[places].tolist(), strict=True):
        text = f"{value:.8e},".rjust(NUMBER_BYTES).encode()
        characters[place * NUMBER_BYTES : (place + 1) * NUMBER_BYTES] = text
