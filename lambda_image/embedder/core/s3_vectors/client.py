"""The two calls of S3 Vectors' REST API that a search needs, signed and retried.

https://docs.aws.amazon.com/AmazonS3/latest/API/API_Operations_Amazon_S3_Vectors.html
"""

import http.client
import random
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import orjson

from embedder.core.aws.connection import ConnectionPool, Response
from embedder.core.aws.signing import CredentialsProvider, NoCredentialsError, sign

__all__ = [
    "AccessDeniedError",
    "IndexNotFoundError",
    "RejectedError",
    "S3VectorsClient",
    "S3VectorsError",
    "ThrottledError",
    "UnavailableError",
]

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


class ThrottledError(S3VectorsError):
    """There are too many requests."""


class UnavailableError(S3VectorsError):
    """There is no valid response, or the service failed."""


_ERRORS: Mapping[int, type[S3VectorsError]] = {
    403: AccessDeniedError,
    404: IndexNotFoundError,
    408: UnavailableError,
    429: ThrottledError,
}
_RETRIED = (ThrottledError, UnavailableError)


class S3VectorsClient:
    """Calls S3 Vectors in one region.

    Args:
        region: The region.
        endpoint: The URL of the service.
        credentials: Whose calls they are; by default the function's role.
    """

    def __init__(
        self, *, region: str, endpoint: str, credentials: CredentialsProvider | None = None
    ) -> None:
        self._region = region
        self._pool = ConnectionPool(endpoint)
        self._credentials = credentials or CredentialsProvider()

    def query(self, parameters: Mapping[str, Any], *, deadline: float | None) -> dict[str, Any]:
        """Call QueryVectors; `parameters` may hold numpy arrays.

        Args:
            parameters: The body, as the API describes it.
            deadline: The `time.monotonic()` until which failed calls are retried.

        Raises:
            S3VectorsError: If there is no answer.
        """
        body = orjson.dumps(parameters, option=orjson.OPT_SERIALIZE_NUMPY)
        return self._call("POST", "/QueryVectors", body, deadline)

    def tags(self, arn: str, *, deadline: float | None) -> dict[str, str]:
        """Call ListTagsForResource and return the tags.

        Raises:
            S3VectorsError: If there is no answer.
        """
        tags = self._call("GET", f"/tags/{quote(arn, safe='')}", b"", deadline).get("tags")
        if not isinstance(tags, dict):
            raise UnavailableError("The response has no tags.")
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
        left = deadline - time.monotonic()
        if left <= 0:
            raise UnavailableError("There is no time left.")
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
                method, path, headers=signed, body=body, timeout=min(left, _RESPONSE_SECONDS)
            )
        except NoCredentialsError as error:
            raise AccessDeniedError("There are no credentials.") from error
        except (OSError, http.client.HTTPException) as error:
            raise UnavailableError("There was no response.") from error
        return _read(answer)


def _read(answer: Response) -> dict[str, Any]:
    if answer.status == 200:
        try:
            value = orjson.loads(answer.body)
        except orjson.JSONDecodeError as error:
            raise UnavailableError("The response is not JSON.") from error
        if isinstance(value, dict):
            return value
        raise UnavailableError("The response is not an object.")
    kind = _ERRORS.get(answer.status)
    if kind is None:
        kind = UnavailableError if answer.status >= 500 else RejectedError
    # The name that AWS gives the error, such as `ValidationException`; never its message.
    name = answer.headers.get("x-amzn-errortype", "").partition(":")[0]
    raise kind(f"{answer.status} {name}".strip())
