"""The vectors of an index: what it accepts, how many there are, and their deletion."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from embedding_client.index.connection import SPACE_TAG, IndexConnection

__all__ = ["IndexVectors"]

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
