"""Searches an index of S3 Vectors directly, with the caller's own AWS credentials.

The endpoint only embeds the text, so it needs no index of its own.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from embedding_client.errors import (
    ConfigurationError,
    EmbeddingClientError,
    RequestError,
    VectorSpaceError,
)
from embedding_client.index.connection import SPACE_TAG, IndexConnection
from embedding_client.protocol import Match

if TYPE_CHECKING:
    from embedding_client.client import EmbeddingClient

__all__ = ["SPACE_TAG", "IndexSearch", "SearchError"]

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
