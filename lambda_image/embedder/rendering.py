"""Vectors to what stands in an answer: number formats, base64, and how many fit into 6 MB.

The formats are those of Voyage and Cohere:

- `int8`, `uint8`: one byte a component, from -128 to 127 and from 0 to 255
  (https://docs.voyageai.com/docs/flexible-dimensions-and-quantization,
  https://docs.cohere.com/v2/docs/embeddings). Neither says how a float becomes such a number; here
  it is one linear scale for all vectors of a dimension d: round(16·√d·x), cut to the range, and
  uint8 is int8 + 128. A component of ordinary size (1/√d) becomes ±16, one eight times as large is
  the last that fits. As the scale is the same for all, dot products and distances keep their
  meaning: x ≈ q / (16·√d).
- `ubinary`: one bit a component, 1 where it is positive, eight to a byte, the first the highest.
- `binary`: the same bytes in offset binary, that is minus 128, from -128 to 127.
- base64: the bytes of the numbers, little-endian, as OpenAI sends its float32.
"""

from __future__ import annotations

from binascii import b2a_base64
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from embedder.errors import BatchTooLargeError
from embedder.float_text import write_rows
from embedder.http import ENVELOPE_BYTES, MAX_RESPONSE_BYTES

if TYPE_CHECKING:  # see quick_start
    import numpy.typing as npt

__all__ = [
    "DTYPES",
    "ENCODINGS",
    "INT8_SCALE",
    "check_batch",
    "encode",
    "largest_batch",
    "quantize",
    "vector_bytes",
]

DTYPES = ("float", "int8", "uint8", "binary", "ubinary")
ENCODINGS = ("float", "base64")
#: What a component of size 1/√dimension becomes in int8.
INT8_SCALE = 16

#: Bytes of one JSON number and its comma, at the most. The longest float32 of a unit vector that
#: orjson writes is like -0.0000123456789; `float_text` takes a byte less.
_JSON_BYTES = {"float": 17, "int8": 5, "uint8": 4, "binary": 5, "ubinary": 4}
#: From here on, writing floats together is faster than each on its own.
_MANY_NUMBERS = 1 << 14
#: What stands around the vectors in a body, at the most: identity, model, usage, timings.
_FRAME_BYTES = 4096
#: What stands around one vector at the most: `{\"object\":\"embedding\",\"index\":12345,
#: \"embedding\":[],` - the answer travels as a JSON string, so each quote takes two bytes.
_ITEM_BYTES = 64


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


def encode(vectors: npt.NDArray[np.float32], dtype: str, encoding: str) -> list[Any]:
    """Return what stands for each vector in the answer: for orjson an array or JSON, or base64."""
    if dtype == encoding == "float" and vectors.size >= _MANY_NUMBERS:
        return [orjson.Fragment(row) for row in write_rows(vectors)]
    numbers = quantize(vectors, dtype)
    if encoding == "float":
        return list(numbers)
    if numbers.dtype == np.float32:
        numbers = numbers.astype("<f4", copy=False)
    return [b2a_base64(row.tobytes(), newline=False).decode() for row in numbers]


def vector_bytes(dimension: int, dtype: str, encoding: str) -> int:
    """Return the most bytes that one vector takes in an answer, with what stands around it."""
    count = -(-dimension // 8) if dtype in {"binary", "ubinary"} else dimension
    if encoding == "base64":
        raw = count * (4 if dtype == "float" else 1)
        return -(-raw // 3) * 4 + _ITEM_BYTES
    return count * _JSON_BYTES[dtype] + _ITEM_BYTES


def largest_batch(dimension: int, dtype: str, encoding: str) -> int:
    """Return how many vectors fit into Lambda's largest answer, whatever their components are."""
    room = MAX_RESPONSE_BYTES - ENVELOPE_BYTES - _FRAME_BYTES
    return room // vector_bytes(dimension, dtype, encoding)


def check_batch(count: int, dimension: int, dtype: str, encoding: str, *, field: str) -> None:
    """Refuse a batch whose answer might not fit.

    Raises:
        BatchTooLargeError: saying how many vectors do fit, and what would take less room.
    """
    allowed = largest_batch(dimension, dtype, encoding)
    if count > allowed:
        raise BatchTooLargeError(
            f'"{field}" holds {count} inputs; an answer of 6 MB has room for {allowed} vectors of '
            f"{dimension} dimensions as {dtype} in the encoding {encoding}. Split the request"
            + (", or ask for base64." if encoding == "float" and dtype == "float" else "."),
            field=field,
        )
