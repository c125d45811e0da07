"""Vectors as S3 Vectors takes them, its limits, and the requests to an index by botocore.

https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html

The packages of the batch image include a pinned botocore: the base image has one too, but of an
unknown version, and S3 Vectors needs one of July 2025 or later.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date
from datetime import time as day_time
from math import isfinite
from typing import Any, NamedTuple

import botocore.session
import numpy as np
import numpy.typing as npt
import orjson
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from embedder.core.s3_vectors import SPACE_TAG
from jobs.errors import BatchError, UnavailableError, VectorSpaceError

_ARN = re.compile(
    r"arn:aws[\w-]*:s3vectors:(?P<region>[a-z0-9-]+):\d{12}:bucket/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
    r"/index/[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]"
)
#: Attempts of a request, with pauses of up to 20 seconds at random between them.
#: https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html
_ATTEMPTS = 8
#: Codes of errors that can pass: after the attempts, a later run may succeed.
_PASSING = {
    "InternalServerException",
    "RequestTimeoutException",
    "ServiceUnavailableException",
    "TooManyRequestsException",
}
#: Keys of one `GetVectors`.
_MAX_GET = 100
#: Keys of one `DeleteVectors`.
_MAX_DELETE = 500
_MAX_ID = 1024
_MAX_METADATA = 40 * 1024
_MAX_FILTERABLE = 2 * 1024
#: Vectors and bytes of a request.
_MAX_VECTORS = 500
_MAX_BYTES = 20 * 1024 * 1024
#: Bytes around the vectors in the body.
_ENVELOPE = 4096
#: The body of the next `PutVectors`; see `IndexClient.put`.
_BODY: ContextVar[bytes] = ContextVar("body")


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        reason = error.response["Error"]
        message = f"S3 Vectors refused: {reason.get('Message') or reason['Code']}"
        passes = reason["Code"] in _PASSING
        raise (UnavailableError if passes else BatchError)(message) from error
    except BotoCoreError as error:
        raise UnavailableError(f"S3 Vectors cannot be reached: {error}.") from error


class IndexDescription(NamedTuple):
    """Properties of an index and its vector space."""

    dimension: int
    #: The metadata keys that no query can filter by.
    non_filterable: tuple[str, ...]
    #: None until the first load.
    vector_space: str | None


class StoredVector(NamedTuple):
    """A vector of an index."""

    key: str
    #: float32 [dimension].
    numbers: npt.NDArray[np.float32]
    metadata: dict[str, Any]


class IndexClient:
    """One index, for up to `connections` requests at a time. Threads may share it.

    The credentials are those that botocore finds: variables, a profile, or a role. What AWS refuses
    is a `BatchError`, and `UnavailableError` if S3 Vectors throttles or does not answer.
    """

    def __init__(self, arn: str, *, connections: int = 4) -> None:
        match = _ARN.fullmatch(arn)
        if match is None:
            raise BatchError(
                "The index must be given by its ARN, which `scripts/deploy` prints as IndexArn; "
                f"found {arn!r}."
            )
        self.arn = arn
        config = Config(
            retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
            max_pool_connections=connections,
            connect_timeout=5,
            read_timeout=30,
        )
        with _explained():
            self._client = botocore.session.Session().create_client(
                "s3vectors", region_name=match["region"], config=config
            )
        self._client.meta.events.register(
            "before-call.s3vectors.PutVectors", lambda params, **_: params.update(body=_BODY.get())
        )

    @_explained()
    def describe(self) -> IndexDescription:
        """Read the index's properties and its vector space."""
        index = self._client.get_index(indexArn=self.arn)["index"]
        tags = self._client.list_tags_for_resource(resourceArn=self.arn)["tags"]
        keys = index.get("metadataConfiguration", {}).get("nonFilterableMetadataKeys", [])
        return IndexDescription(index["dimension"], tuple(keys), tags.get(SPACE_TAG))

    @_explained()
    def claim(self, vector_space: str) -> IndexDescription:
        """Record the vector space of an index that has none yet, and return the description.

        The index is read again after it, since another load may record its own space meanwhile.
        One of another space is a `VectorSpaceError`.
        """
        description = self.describe()
        if description.vector_space is None:
            self._client.tag_resource(resourceArn=self.arn, tags={SPACE_TAG: vector_space})
            description = self.describe()
        if description.vector_space != vector_space:
            raise VectorSpaceError(
                f"The index has vectors of {description.vector_space}; these are of "
                f"{vector_space}. One index has the vectors of one vector space: a change of the "
                "model in `[model]` deploys another index."
            )
        return description

    @_explained()
    def put(self, vectors: Sequence[bytes]) -> None:
        """Write up to 500 vectors and 20 MiB, each as JSON; equal keys are replaced.

        botocore's own serializer takes 0.4 s of CPU time for 500 vectors of 768 numbers, 30 times
        as long as orjson, and writes twice the bytes. Therefore it gets none, and the body is set
        just before it is signed.
        """
        body = b'{"indexArn":' + orjson.dumps(self.arn)
        token = _BODY.set(body + b',"vectors":[' + b",".join(vectors) + b"]}")
        # One vector for botocore's check that there is one.
        placeholder = [{"key": "-", "data": {"float32": []}}]
        try:
            self._client.put_vectors(indexArn=self.arn, vectors=placeholder)
        finally:
            _BODY.reset(token)

    @_explained()
    def query(self, vector: npt.NDArray[np.float32], top: int) -> list[tuple[str, float]]:
        """Return the keys of the nearest vectors and their cosines, best first."""
        query = {
            "indexArn": self.arn,
            "topK": top,
            "queryVector": {"float32": vector.tolist()},
            "returnDistance": True,
        }
        pages = self._client.get_paginator("query_vectors").paginate(**query)
        return [
            (vector["key"], 1 - vector["distance"]) for page in pages for vector in page["vectors"]
        ]

    def existing(self, keys: Sequence[str]) -> set[str]:
        """Return those of the keys that have a vector."""
        return {vector["key"] for vector in self._get(keys)}

    def read(self, keys: Sequence[str]) -> list[StoredVector]:
        """Return the vectors of those keys that have one."""
        return [
            StoredVector(
                vector["key"],
                np.array(vector["data"]["float32"], dtype=np.float32),
                vector.get("metadata", {}),
            )
            for vector in self._get(keys, returnData=True, returnMetadata=True)
        ]

    def _get(self, keys: Sequence[str], **wanted: bool) -> Iterator[dict[str, Any]]:
        for start in range(0, len(keys), _MAX_GET):
            batch = list(keys[start : start + _MAX_GET])
            with _explained():
                page = self._client.get_vectors(indexArn=self.arn, keys=batch, **wanted)
            yield from page["vectors"]

    @_explained()
    def delete(self, keys: Sequence[str]) -> None:
        """Delete vectors; a key without one is no error."""
        for start in range(0, len(keys), _MAX_DELETE):
            batch = list(keys[start : start + _MAX_DELETE])
            self._client.delete_vectors(indexArn=self.arn, keys=batch)


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
        return [item for item in map(_value, value) if item is not None] or None
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, date | day_time):  # a datetime is a date
        return value.isoformat()
    return value
