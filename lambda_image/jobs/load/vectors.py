"""Vectors with metadata as S3 Vectors takes them, and its limits.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date
from datetime import time as day_time
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

_MAX_ID = 1024
_MAX_METADATA = 40 * 1024
_MAX_FILTERABLE = 2 * 1024
#: Of a request.
_MAX_VECTORS = 500
_MAX_BYTES = 20 * 1024 * 1024
#: For what surrounds the vectors in the body.
_ENVELOPE = 4096


class Item(NamedTuple):
    """A row: its vector as JSON, or the reason why it cannot be loaded."""

    id: str
    json: bytes
    problem: str | None = None


def encode(
    key: str,
    vector: npt.NDArray[np.float32],
    metadata: Mapping[str, Any],
    *,
    non_filterable: Sequence[str],
) -> Item:
    """Return a row as S3 Vectors takes it, of a contiguous vector [dimension].

    The metadata are text, numbers, booleans, dates, and lists of these; one that is None, NaN or
    empty is left out. AWS does not say how it counts their bytes; here they are those of the JSON.
    """
    if not 1 <= len(key) <= _MAX_ID:
        return Item(key, b"", f"the id has {len(key)} characters; 1 to {_MAX_ID} are allowed")
    # The cosine of a vector without a direction is undefined.
    length = float(np.dot(vector, vector))
    if not isfinite(length) or length == 0:
        return Item(key, b"", "the embedding has no direction: it is zero or not finite")
    values = {name: _value(value) for name, value in metadata.items()}
    values = {name: value for name, value in values.items() if value is not None}
    problem = metadata_problem(values, non_filterable=non_filterable)
    if problem is not None:
        return Item(key, b"", problem)
    item: dict[str, Any] = {"key": key, "data": {"float32": vector}}
    if values:
        item["metadata"] = values
    return Item(key, orjson.dumps(item, option=orjson.OPT_SERIALIZE_NUMPY))


def metadata_problem(values: Mapping[str, Any], *, non_filterable: Collection[str]) -> str | None:
    """Return why S3 Vectors would refuse metadata: it is too large; None if it is not."""
    size = len(orjson.dumps(values))
    if size > _MAX_METADATA:
        return f"{size:,} bytes of metadata; up to {_MAX_METADATA:,} are allowed"
    size = len(orjson.dumps({name: values[name] for name in values if name not in non_filterable}))
    if size > _MAX_FILTERABLE:
        return f"{size:,} bytes of filterable metadata; up to {_MAX_FILTERABLE:,} are allowed"
    return None


def batches(items: Sequence[Item]) -> Iterator[list[bytes]]:
    """Divide vectors into requests of up to 500 vectors and 20 MiB."""
    batch: list[bytes] = []
    size = _ENVELOPE
    for item in items:
        if batch and (len(batch) == _MAX_VECTORS or size + len(item.json) + 1 > _MAX_BYTES):
            yield batch
            batch, size = [], _ENVELOPE
        batch.append(item.json)
        size += len(item.json) + 1
    if batch:
        yield batch


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return [found for found in map(_value, value) if found is not None] or None
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, date | day_time):  # a datetime is a date
        return value.isoformat()
    return value
