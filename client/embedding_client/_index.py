"""An index of S3 Vectors, with the caller's own AWS credentials: searches, counts and deletes.

The endpoint only embeds a text to search for, so it needs no index.
"""

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import botocore.exceptions
import botocore.session
from botocore.config import Config

from embedding_client._errors import (
    ConfigurationError,
    CredentialsError,
    EmbeddingClientError,
    RequestError,
    VectorSpaceError,
)
from embedding_client._protocol import Match

if TYPE_CHECKING:
    from embedding_client._client import EmbeddingClient

__all__ = [
    "SPACE_TAG",
    "IndexConnection",
    "IndexSearch",
    "IndexVectors",
    "SearchError",
    "VectorIndexError",
]

#: The tag of the index that names the vector space of its vectors.
SPACE_TAG = "embedding-kit:vector-space"
_ARN = re.compile(
    r"arn:aws[a-z0-9-]*:s3vectors:(?P<region>[a-z0-9-]+):\d{12}:bucket/[a-z0-9.-]+/index/[a-z0-9.-]+"
)


class VectorIndexError(EmbeddingClientError):
    """AWS refuses a request to the index, or does not answer."""


class IndexConnection:
    """One index.

    Args:
        arn: The ARN of the index.
        profile: An AWS profile.
        connections: How many requests may be under way at a time.

    Raises:
        ConfigurationError: If the ARN is not one of an index, or there are no credentials.
    """

    #: What the errors of this index are.
    error: ClassVar[type[EmbeddingClientError]] = VectorIndexError

    def __init__(self, arn: str, *, profile: str | None = None, connections: int = 1) -> None:
        found = _ARN.fullmatch(arn)
        if found is None:
            raise ConfigurationError(
                "The index must be given by its ARN, such as "
                f"arn:aws:s3vectors:eu-central-1:123456789012:bucket/b/index/i; found {arn!r}."
            )
        self._arn = arn
        config = Config(retries={"mode": "standard"}, max_pool_connections=connections)
        try:
            session = botocore.session.Session(profile=profile)
            self._client = session.create_client(
                "s3vectors", region_name=found["region"], config=config
            )
        except botocore.exceptions.BotoCoreError as error:
            raise ConfigurationError(f"{error}.") from error

    def _call(self, operation: str, **arguments: Any) -> Any:
        try:
            return getattr(self._client, operation)(**arguments)
        except botocore.exceptions.ClientError as error:
            reason = error.response["Error"]
            message = f"AWS refused: {reason.get('Message') or reason['Code']}"
            raise self.error(message) from error
        except botocore.exceptions.NoCredentialsError as error:
            raise CredentialsError(f"AWS cannot be reached: {error}.") from error
        except botocore.exceptions.BotoCoreError as error:
            raise self.error(f"AWS cannot be reached: {error}.") from error


#: What S3 Vectors returns for one query at most.
_MAX_RESULTS = 10_000


class SearchError(EmbeddingClientError):
    """The index cannot be searched."""


class IndexSearch(IndexConnection):
    """Searches one index.

    Args:
        arn: The ARN of the index.
        profile: An AWS profile.

    Raises:
        ConfigurationError: If the ARN is not one of an index, or there are no credentials.
    """

    error = SearchError

    @property
    def vector_space(self) -> str:
        """The vector space of the index's vectors.

        Raises:
            VectorSpaceError: If the index does not name it.
            SearchError: If AWS does not answer.
        """
        tags = self._call("list_tags_for_resource", resourceArn=self._arn)["tags"]
        space: str | None = tags.get(SPACE_TAG)
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
        """Return the matches, best first.

        Args:
            client: Embeds the text. It must accept only the index's vector space.
            text: The text to search for.
            top: The largest number of matches, from 1 to 10,000.
            where: The filter, as S3 Vectors defines it.

        Raises:
            ConfigurationError: If `top` is out of range.
            VectorSpaceError: If the index is of another vector space than the endpoint's.
            SearchError: If AWS refuses the query or does not answer.
        """
        if not 1 <= top <= _MAX_RESULTS:
            raise ConfigurationError(f"top must be from 1 to {_MAX_RESULTS}; found {top}.")
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
        query: dict[str, Any] = {
            "indexArn": self._arn,
            "topK": top,
            "queryVector": {"float32": vector.tolist()},
            "returnDistance": True,
            "returnMetadata": True,
        }
        if where is not None:
            query["filter"] = where
        matches: list[Match] = []
        while len(matches) < top:
            page = self._call("query_vectors", **query)
            matches += map(_match, page["vectors"])
            if not page.get("nextToken"):
                break
            query["nextToken"] = page["nextToken"]
        return matches[:top]


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


#: What AWS lists in parallel at most, returns in a page, and deletes in a request.
#: https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-limitations.html
_SEGMENTS = 16
_PAGE = 1000
_DELETED = 500


class IndexVectors(IndexConnection):
    """The vectors of one index.

    Args:
        arn: The ARN of the index.
        profile: An AWS profile.

    Raises:
        ConfigurationError: If the ARN is not one of an index, or there are no credentials.
    """

    def __init__(self, arn: str, *, profile: str | None = None) -> None:
        super().__init__(arn, profile=profile, connections=_SEGMENTS)

    def describe(self) -> dict[str, Any]:
        """Return what the index accepts, and its vector space, which is None until a load.

        Raises:
            VectorIndexError: If AWS refuses or does not answer.
        """
        found = self._call("get_index", indexArn=self._arn)["index"]
        tags = self._call("list_tags_for_resource", resourceArn=self._arn)["tags"]
        keys = found.get("metadataConfiguration", {}).get("nonFilterableMetadataKeys", [])
        return {
            "index_arn": found["indexArn"],
            "vector_space": tags.get(SPACE_TAG),
            "dimension": found["dimension"],
            "distance_metric": found["distanceMetric"],
            "non_filterable": keys,
        }

    def count(self) -> int:
        """Count the vectors, by listing their keys in 16 segments at a time.

        Raises:
            VectorIndexError: If AWS refuses or does not answer.
        """
        with ThreadPoolExecutor(_SEGMENTS) as pool:
            return sum(pool.map(self._count_segment, range(_SEGMENTS)))

    def delete(self, ids: Iterable[str]) -> int:
        """Delete vectors by their ids, 500 in a request; return the number of ids.

        An id that is not in the index is no error.

        Raises:
            VectorIndexError: If AWS refuses or does not answer. The earlier ids are deleted.
        """
        count, remaining = 0, iter(ids)
        while keys := list(dict.fromkeys(islice(remaining, _DELETED))):
            self._call("delete_vectors", indexArn=self._arn, keys=keys)
            count += len(keys)
        return count

    def _count_segment(self, segment: int) -> int:
        asked = {
            "indexArn": self._arn,
            "segmentCount": _SEGMENTS,
            "segmentIndex": segment,
            "maxResults": _PAGE,
        }
        count = 0
        while True:
            page = self._call("list_vectors", **asked)
            count += len(page["vectors"])
            if not page.get("nextToken"):
                return count
            asked["nextToken"] = page["nextToken"]
