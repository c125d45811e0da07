"""An index of S3 Vectors, with the caller's own AWS credentials: searches, counts and deletes.

The endpoint only embeds a text to search for, so it needs no index.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

from embedding_client._aws import aws_client, aws_errors
from embedding_client._errors import ConfigurationError, RequestError, VectorSpaceError
from embedding_client._protocol import Match

if TYPE_CHECKING:
    from embedding_client._client import EmbeddingClient

#: The tag of the index that names the vector space of its vectors.
SPACE_TAG = "embedding-kit:vector-space"
_ARN = re.compile(
    r"arn:aws[a-z0-9-]*:s3vectors:(?P<region>[a-z0-9-]+):\d{12}:bucket/[a-z0-9.-]+/index/[a-z0-9.-]+"
)
#: What S3 Vectors lists in parallel and in a page, and deletes in a request:
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html
_SEGMENTS = 16
_PAGE = 1000
_DELETED = 500


class VectorIndex:
    """One index. Its methods raise `AwsError` if AWS refuses or does not answer."""

    def __init__(self, arn: str, *, profile: str | None = None) -> None:
        found = _ARN.fullmatch(arn)
        if found is None:
            raise ConfigurationError(
                "The index must be given by its ARN, such as "
                f"arn:aws:s3vectors:eu-central-1:123456789012:bucket/b/index/i; found {arn!r}."
            )
        self._arn = arn
        self._client = aws_client(
            "s3vectors", found["region"], profile=profile, connections=_SEGMENTS
        )

    @property
    def vector_space(self) -> str:
        """The vector space of the index's vectors."""
        space = self._tagged_space()
        if space is None:
            raise VectorSpaceError(
                f"The index has no tag {SPACE_TAG}, so the vector space of its vectors is unknown. "
                "Load it first; docs/search.md says how."
            )
        return space

    def search(
        self,
        client: "EmbeddingClient",
        text: str,
        *,
        top: int,
        where: Mapping[str, Any] | None = None,
    ) -> list[Match]:
        """Return the matches, best first. The client must accept only the index's vector space."""
        space = client.vector_space or self.vector_space
        dimensions = int(space.rpartition("/")[2])
        try:
            vector = client.embed_one(text, input_type="query", dimensions=dimensions)
        except RequestError as error:
            if error.field != "size":
                raise
            raise VectorSpaceError(
                f"The index is of the vector space {space}, and the endpoint's model has no "
                f"vectors of {dimensions} dimensions."
            ) from error
        found = self._items(
            "query_vectors",
            topK=top,
            queryVector={"float32": vector.tolist()},
            returnDistance=True,
            returnMetadata=True,
            **({} if where is None else {"filter": where}),
        )
        return [_match(vector) for vector in islice(found, top)]

    def describe(self) -> dict[str, Any]:
        """Return what the index accepts, and its vector space, which is None until a load."""
        with aws_errors():
            found = self._client.get_index(indexArn=self._arn)["index"]
        keys = found.get("metadataConfiguration", {}).get("nonFilterableMetadataKeys", [])
        return {
            "index_arn": found["indexArn"],
            "vector_space": self._tagged_space(),
            "dimension": found["dimension"],
            "distance_metric": found["distanceMetric"],
            "non_filterable": keys,
        }

    def count(self) -> int:
        """Count the vectors, by listing their keys in 16 segments at a time."""

        def count_segment(segment: int) -> int:
            listed = self._items(
                "list_vectors",
                segmentCount=_SEGMENTS,
                segmentIndex=segment,
                PaginationConfig={"PageSize": _PAGE},
            )
            return sum(1 for _ in listed)

        with ThreadPoolExecutor(_SEGMENTS) as pool:
            return sum(pool.map(count_segment, range(_SEGMENTS)))

    def delete(self, ids: Iterable[str]) -> int:
        """Delete vectors by their ids, 500 in a request; return the number of ids.

        An id that is not in the index is no error. After an error, the earlier ids are deleted.
        """
        count, remaining = 0, iter(ids)
        while keys := list(dict.fromkeys(islice(remaining, _DELETED))):
            with aws_errors():
                self._client.delete_vectors(indexArn=self._arn, keys=keys)
            count += len(keys)
        return count

    def _tagged_space(self) -> str | None:
        with aws_errors():
            tags = self._client.list_tags_for_resource(resourceArn=self._arn)["tags"]
        space: str | None = tags.get(SPACE_TAG)
        return space

    def _items(self, operation: str, **asked: Any) -> Iterator[Mapping[str, Any]]:
        """Yield the vectors of all pages."""
        pages = self._client.get_paginator(operation).paginate(indexArn=self._arn, **asked)
        with aws_errors():
            for page in pages:
                yield from page["vectors"]


def _match(vector: Mapping[str, Any]) -> Match:
    metadata = dict(vector.get("metadata") or {})
    text = metadata.pop("text", None)
    return Match(
        text=text if isinstance(text, str) else None,
        index=None,
        score=1.0 - vector["distance"],
        id=vector["key"],
        metadata=metadata,
    )
