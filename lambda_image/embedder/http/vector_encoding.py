"""Vectors to what an answer holds: numbers or base64, and how many fit into 6 MB.

Base64 is the bytes of the numbers, little-endian, as OpenAI sends its float32.
"""

from __future__ import annotations

from binascii import b2a_base64
from typing import TYPE_CHECKING, Any

import numpy as np

from embedder.core.errors import BatchTooLargeError
from embedder.core.quantization import quantize
from embedder.http.http_types import ENVELOPE_BYTES, MAX_RESPONSE_BYTES

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

ENCODINGS = ("float", "base64")

#: The most bytes of one JSON number and its comma. The longest float32 of a unit vector that
#: orjson writes is like -0.0000123456789; on average one takes 12.4 bytes.
_JSON_BYTES = {"float": 17, "int8": 5, "uint8": 4, "binary": 5, "ubinary": 4}
#: The fewest bytes of one number in a response. For floats that is `0.0,`. Nothing with more
#: numbers fits, so its vectors need not be computed.
_LEAST_BYTES = {"float": 4, "int8": 1, "uint8": 1, "binary": 1, "ubinary": 1}
#: The same of floats of different vectors that hold no 0, in gzip and base64: measured are 7.1 to
#: 7.3 of vectors of length 1, and 6.8 of float16's numbers. Without gzip it is 12.
_LEAST_DENSE_BYTES = 6.5
#: The most bytes around the vectors in a body: identity, model, usage, timings.
_FRAME_BYTES = 4096
#: The most bytes around one vector: `{\"object\":\"embedding\",\"index\":12345,
#: \"embedding\":[],` - the answer travels as a JSON string, so each quote takes two bytes.
_ITEM_BYTES = 64
#: The bytes left for the vectors.
_ROOM = MAX_RESPONSE_BYTES - ENVELOPE_BYTES - _FRAME_BYTES


def encode(vectors: npt.NDArray[np.float32], dtype: str, encoding: str) -> list[Any]:
    """Return what an answer holds for each vector: an array for orjson, or base64."""
    numbers = quantize(vectors, dtype)
    if encoding == "float":
        return list(numbers)
    if numbers.dtype == np.float32:
        numbers = numbers.astype("<f4", copy=False)
    return [b2a_base64(row.tobytes(), newline=False).decode() for row in numbers]


def largest_batch(dimensions: int, dtype: str, encoding: str) -> int:
    """Return how many vectors always fit into Lambda's largest answer, whatever they hold."""
    count = _numbers(dimensions, dtype)
    if encoding == "base64":
        raw = count * (4 if dtype == "float" else 1)
        size = -(-raw // 3) * 4
    else:
        size = count * _JSON_BYTES[dtype]
    return _ROOM // (size + _ITEM_BYTES)


def check_batch(count: int, dimensions: int, dtype: str, encoding: str, *, field: str) -> None:
    """Refuse a batch before it is computed if its answer cannot fit; say how many vectors do.

    The size of base64 is known beforehand. The size of a list of numbers is known once they are
    written: a batch that may fit passes here, and `Operation.serve` looks at the answer itself.
    """
    if encoding == "base64":
        allowed = largest_batch(dimensions, dtype, encoding)
    else:
        allowed = _ROOM // (_numbers(dimensions, dtype) * _LEAST_BYTES[dtype])
    if count > allowed:
        raise BatchTooLargeError(
            f'"{field}" holds {count} inputs; an answer of 6 MB never has room for more than '
            f"{allowed} vectors of {dimensions} dimensions as {dtype} in the encoding {encoding}. "
            "Split the request" + smaller(dimensions, dtype, encoding),
            field=field,
        )


def most_different(dimensions: int, dtype: str, encoding: str) -> int | None:
    """Return the most different vectors without a 0 that may fit; None for other than JSON floats.

    `check_batch` is enough for those. Equal vectors take next to nothing in gzip.
    """
    if (dtype, encoding) != ("float", "float"):
        return None
    return int(_ROOM / (dimensions * _LEAST_DENSE_BYTES))


def too_large(
    count: int, dimensions: int, dtype: str, encoding: str, *, size: int, gzip: bool
) -> BatchTooLargeError:
    """Make the error for an answer of `size` bytes, perhaps in gzip, which is over the limit."""
    fits = count * (MAX_RESPONSE_BYTES - ENVELOPE_BYTES) // size
    taken = f"{size} bytes in gzip" if gzip else f"{size} bytes"
    return BatchTooLargeError(
        f"An answer of {count} vectors of {dimensions} dimensions as {dtype} in the encoding "
        f"{encoding} takes {taken}; at most {MAX_RESPONSE_BYTES} are allowed. Send about {fits} "
        "inputs in one request"
        + ("" if gzip else ', or "accept-encoding: gzip"')
        + smaller(dimensions, dtype, encoding)
    )


def smaller(dimensions: int, dtype: str, encoding: str) -> str:
    """Return the end of an error's sentence: how the vectors take less room."""
    if encoding == "base64":
        return "."
    return (
        ', or ask for "encoding_format": "base64" where the path takes it (/ and /v1/embeddings), '
        f"which has room for {largest_batch(dimensions, dtype, 'base64')}."
    )


def _numbers(dimensions: int, dtype: str) -> int:
    return -(-dimensions // 8) if dtype in {"binary", "ubinary"} else dimensions
