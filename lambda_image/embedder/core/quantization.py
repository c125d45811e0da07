"""Vectors in other number formats.

The formats are those of Voyage and Cohere:

- `int8`, `uint8`: one byte a component, from -128 to 127 and from 0 to 255
  (https://docs.voyageai.com/docs/flexible-dimensions-and-quantization,
  https://docs.cohere.com/v2/docs/embeddings). Neither says how a float becomes such a number; here
  it is one linear scale for all vectors of d dimensions: round(16·√d·x), cut to the range, and
  uint8 is int8 + 128. A component of ordinary size (1/√d) becomes ±16, one eight times as large is
  the last that fits. As the scale is the same for all, dot products and distances keep their
  meaning: x ≈ q / (16·√d).
- `ubinary`: one bit a component, 1 where it is positive, eight to a byte, the first the highest.
- `binary`: the same bytes in offset binary, that is minus 128, from -128 to 127.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

DTYPES = ("float", "int8", "uint8", "binary", "ubinary")
#: The int8 value of a component of size 1/√dimensions.
INT8_SCALE = 16


def quantize(vectors: npt.NDArray[np.float32], dtype: str) -> npt.NDArray[Any]:
    """Turn float32 [n, d] into the numbers of a dtype: [n, d], or [n, ⌈d/8⌉] for bits."""
    if dtype == "float":
        return vectors
    if dtype in {"binary", "ubinary"}:
        bits: npt.NDArray[np.uint8] = np.packbits(vectors > 0, axis=1)
        return bits if dtype == "ubinary" else np.asarray(bits ^ 0x80).view(np.int8)
    scaled = np.rint(vectors * np.float32(INT8_SCALE * sqrt(vectors.shape[1])))
    signed = np.clip(scaled, -128, 127).astype(np.int8)
    return signed if dtype == "int8" else np.asarray(signed.view(np.uint8) ^ 0x80)
