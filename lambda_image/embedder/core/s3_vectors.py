"""An index of S3 Vectors as the endpoint searches it, by the two calls of its REST API.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_S3_Vectors.html
"""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import orjson

from embedder.core import errors
from embedder.core.aws import ConnectionPool, CredentialsProvider, RoleCredentialsError, sign
from embedder.core.search import IndexMatch, SearchIndex

if TYPE_CHECKING:  # see startup
    import numpy as np
    import numpy.typing as npt

#: The tag of the index that names the vector space of its vectors. The first load writes it.
SPACE_TAG = "embedding-kit:vector-space"
#: https://aws.amazon.com/about-aws/whats-new/2026/06/s3-vectors-supports-10000-search-results-per-query/
MAX_RESULTS = 10_000
#: The most characters of a text query, as botocore's model of the API has it.
MAX_TEXT = 1024
#: The metadata key of a vector's text.
_TEXT = "text"
#: A start waits this long for the index's vector space; after that, the first search asks again.
_START_SECONDS = 1.0
_ARN_FORM = "arn:aws:s3vectors:REGION:ACCOUNT:bucket/BUCKET/index/INDEX"
_SERVICE = "s3vectors"
#: The first ceiling of the delay before a retry; it doubles with each attempt.
_BASE_SECONDS = 0.05
_CEILING_SECONDS = 2.0
_ATTEMPTS = 6
#: The time of a call that has no deadline.
_WITHOUT_DEADLINE = 10.0
#: The longest wait for one response.
_RESPONSE_SECONDS = 5.0


# The log names the classes of these errors; callers never see them.


class S3VectorsError(Exception):
    """S3 Vectors did not answer a call."""


class AccessDeniedError(S3VectorsError):
    """The role lacks a permission, or there are no valid credentials."""


class IndexNotFoundError(S3VectorsError):
    """The index does not exist."""


class RejectedError(S3VectorsError):
    """S3 Vectors does not accept the request."""


class S3VectorsThrottledError(S3VectorsError):
    """There are too many requests."""


class S3VectorsUnavailableError(S3VectorsError):
    """There is no valid response, or the service failed."""


_ERRORS: Mapping[int, type[S3VectorsError]] = {
    403: AccessDeniedError,
    404: IndexNotFoundError,
    408: S3VectorsUnavailableError,
    429: S3VectorsThrottledError,
}
_RETRIED = (S3VectorsThrottledError, S3VectorsUnavailableError)


class S3VectorsClient:
    """Calls S3 Vectors in one region; by default with the credentials of the function's role."""

    def __init__(
        self, *, region: str, endpoint: str, credentials: CredentialsProvider | None = None
    ) -> None:
        self._region = region
        self._pool = ConnectionPool(endpoint)
        self._credentials = credentials or CredentialsProvider()

    def query(self, parameters: Mapping[str, Any], *, deadline: float | None) -> dict[str, Any]:
        """Call QueryVectors; `parameters` may hold numpy arrays.

        Failed calls are retried until the deadline, a `time.monotonic()`; then it is an
        `S3VectorsError`.
        """
        body = orjson.dumps(parameters, option=orjson.OPT_SERIALIZE_NUMPY)
        return self._call("POST", "/QueryVectors", body, deadline)

    def tags(self, arn: str, *, deadline: float | None) -> dict[str, str]:
        """Call ListTagsForResource and return the tags; see `query`."""
        tags = self._call("GET", f"/tags/{quote(arn, safe='')}", b"", deadline).get("tags")
        if not isinstance(tags, dict):
            raise S3VectorsUnavailableError("The response has no tags.")
        return tags

    def forget(self) -> None:
        """Close the connections and drop the credentials, which a snapshot must not carry."""
        self._pool.close()
        self._credentials.forget()

    def _call(self, method: str, path: str, body: bytes, deadline: float | None) -> dict[str, Any]:
        if deadline is None:
            deadline = time.monotonic() + _WITHOUT_DEADLINE
        attempt = 0
        while True:
            attempt += 1
            try:
                return self._attempt(method, path, body, deadline)
            except _RETRIED:
                # Full jitter, so that functions that were throttled at once do not retry at once.
                ceiling = min(_CEILING_SECONDS, _BASE_SECONDS * 2 ** (attempt - 1))
                delay = random.uniform(0, ceiling)  # noqa: S311 (not cryptography)
                if attempt >= _ATTEMPTS or time.monotonic() + delay >= deadline:
                    raise
            time.sleep(delay)

    def _attempt(self, method: str, path: str, body: bytes, deadline: float) -> dict[str, Any]:
        headers = {"host": self._pool.host}
        if body:
            headers["content-type"] = "application/json"
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise S3VectorsUnavailableError("There is no time left.")
        try:
            # Signed anew for each attempt: the time is part of the signature.
            signed = sign(
                method,
                path,
                headers,
                body,
                credentials=self._credentials.get(),
                region=self._region,
                service=_SERVICE,
            )
            answer = self._pool.request(
                method, path, headers=signed, body=body, timeout=min(remaining, _RESPONSE_SECONDS)
            )
        except RoleCredentialsError as error:
            raise AccessDeniedError("There are no credentials.") from error
        except (OSError, http.client.HTTPException) as error:
            raise S3VectorsUnavailableError("There was no response.") from error
        if answer.status == 200:
            try:
                value = orjson.loads(answer.body)
            except orjson.JSONDecodeError as error:
                raise S3VectorsUnavailableError("The response is not JSON.") from error
            if isinstance(value, dict):
                return value
            raise S3VectorsUnavailableError("The response is not an object.")
        default_error = S3VectorsUnavailableError if answer.status >= 500 else RejectedError
        error_class = _ERRORS.get(answer.status, default_error)
        # The name that AWS gives the error, such as `ValidationException`; never its message.
        name = answer.headers.get("x-amzn-errortype", "").partition(":")[0]
        raise error_class(f"{answer.status} {name}".strip())


class S3VectorsIndex(SearchIndex):
    """An index of S3 Vectors; its search is approximate.

    A search with words is a hybrid one: S3 Vectors ranks the texts by BM25 and fuses the two lists
    by reciprocal ranks.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-vectors-hybrid-search.html

    The model serves vectors of `spaces`, one for each allowed number of dimensions.
    """

    max_results = MAX_RESULTS
    takes_filter = True
    text_characters = MAX_TEXT

    def __init__(self, arn: str, client: S3VectorsClient, *, spaces: Sequence[str]) -> None:
        self._arn = arn
        self._client = client
        self._spaces = spaces

    def prepare(self, deadline: float | None) -> None:
        """Find out the vector space of the vectors, unless it is known.

        Raises:
            NoIndexError: if the index has no vectors yet.
            ForeignIndexError: if its vectors are of a space that the model does not serve.
            IndexFailedError: if S3 Vectors refuses the call.
            IndexUnavailableError: if S3 Vectors does not answer.
        """
        if self.vector_space:
            return
        try:
            space = self._client.tags(self._arn, deadline=deadline).get(SPACE_TAG)
        except S3VectorsError as error:
            raise _answer(error) from error
        if space is None:
            raise errors.NoIndexError(
                "The index of this endpoint has no vectors yet. Load it first; docs/search.md says "
                "how."
            )
        if space not in self._spaces:
            raise errors.ForeignIndexError(
                f"The index is of the vector space {space}; the model serves "
                f"{', '.join(self._spaces)}. Vectors of two spaces cannot be compared: load an "
                "index with vectors of this model."
            )
        self.vector_space = space

    def search(
        self,
        query: npt.NDArray[np.float32],
        num_results: int,
        *,
        where: Mapping[str, Any] | None = None,
        text: str = "",
        deadline: float | None = None,
    ) -> list[IndexMatch]:
        """See `SearchIndex`."""
        parameters: dict[str, Any] = {
            "indexArn": self._arn,
            "topK": num_results,
            "queryVector": {"float32": query},
            "returnMetadata": True,
        }
        if where is not None:
            parameters["filter"] = where
        if text:
            parameters["queryTexts"] = [{"metadataKey": _TEXT, "text": text}]
            parameters["returnScores"] = True
        else:
            parameters["returnDistance"] = True
        matches: list[IndexMatch] = []
        try:
            while True:
                page = self._client.query(parameters, deadline=deadline)
                matches += map(_fused_match if text else _match, page["vectors"])
                token = page.get("nextToken")
                if not token or len(matches) >= num_results:
                    break
                parameters["nextToken"] = token
        except RejectedError as error:
            raise _refusal(where, text) or _answer(error) from error
        except S3VectorsError as error:
            raise _answer(error) from error
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise errors.IndexUnavailableError from error
        if text and where is not None:
            # It may be a caller's limit, and AWS does not say that it limits full-text search too.
            from embedder.core.metadata_matching import matches as is_match  # noqa: PLC0415

            matches = [match for match in matches if is_match(where, match.metadata)]
        return matches[:num_results]

    def forget(self) -> None:
        """Drop the connections and the credentials, which a snapshot must not carry."""
        self._client.forget()


def parse_arn(arn: str) -> tuple[str, str]:
    """Return the region of an index's ARN, and the URL of S3 Vectors there."""
    fields = arn.split(":", 5)
    names = fields[-1].split("/")
    if (
        (len(fields), len(names)) != (6, 4)
        or (fields[0], fields[2]) != ("arn", _SERVICE)
        or names[::2] != ["bucket", "index"]
        or not all([*fields, *names])
    ):
        raise errors.SettingsError(f"EMBEDDING_VECTOR_INDEX must be {_ARN_FORM}; found {arn!r}.")
    suffix = "api.amazonwebservices.com.cn" if fields[1] == "aws-cn" else "api.aws"
    return fields[3], f"https://s3vectors.{fields[3]}.{suffix}"


def open_index(arn: str, *, endpoint: str | None, spaces: Sequence[str]) -> S3VectorsIndex:
    """Connect to an index, by default in its region; one of another space is a `StartError`.

    An index without vectors and one that does not answer are no reason not to start: the endpoint
    also embeds, and the first search asks again.
    """
    region, usual = parse_arn(arn)
    client = S3VectorsClient(region=region, endpoint=endpoint or usual)
    index = S3VectorsIndex(arn, client, spaces=spaces)
    try:
        index.prepare(time.monotonic() + _START_SECONDS)
    except errors.ForeignIndexError as error:
        index.forget()
        raise errors.StartError(error.message) from None
    except (errors.NoIndexError, errors.IndexFailedError, errors.IndexUnavailableError):
        pass
    return index


def _match(vector: Mapping[str, Any]) -> IndexMatch:
    metadata = dict(vector.get("metadata") or {})
    text = metadata.pop(_TEXT, None)
    return IndexMatch(
        text=text if isinstance(text, str) else None,
        position=None,
        score=1.0 - float(vector["distance"]),
        id=str(vector["key"]),
        metadata=metadata,
    )


def _fused_match(vector: Mapping[str, Any]) -> IndexMatch:
    """Return an entry of a hybrid search: with a score of each search that found it."""
    stages = vector["scores"]
    scores: dict[str, float] = {}
    if "vectorDistance" in stages:
        scores["dense"] = 1.0 - float(stages["vectorDistance"])
    for score in stages.get("bm25Scores", ()):
        scores["sparse"] = float(score["score"])
    scores["fused"] = float(stages["fused"])
    match = _match({**vector, "distance": 0.0})
    return match._replace(score=scores["fused"], scores=scores)


def _refusal(where: Mapping[str, Any] | None, text: str) -> errors.InvalidFieldError | None:
    """Return what the caller may change in a search that S3 Vectors does not accept."""
    filters = (
        'The keys of "filter" must be filterable metadata of the index; the text of the vectors is '
        "not."
    )
    if text:
        return errors.InvalidFieldError(
            'S3 Vectors does not accept this search of mode "hybrid". The index must be in the '
            "mode ENHANCED, with full-text search of its texts; docs/search.md says how. "
            f"{filters}",
            field="mode",
        )
    if where is not None:
        return errors.InvalidFieldError(
            f'S3 Vectors does not accept this "filter". {filters}', field="filter"
        )
    return None


def _answer(error: S3VectorsError) -> errors.IndexFailedError | errors.IndexUnavailableError:
    """Return the error that the caller of the endpoint receives."""
    return (
        errors.IndexUnavailableError() if isinstance(error, _RETRIED) else errors.IndexFailedError()
    )
