"""The exceptions of the client.

EmbeddingClientError
├── ConfigurationError          the URL, the region or an argument is invalid
│   └── CredentialsError        no credentials, or reading or refreshing them failed
├── UnreachableError            no response: connection, TLS, timeout
├── ResponseError               the response is not a success
│   ├── RequestError            4xx: the request is invalid
│   │   ├── ForbiddenError      401, 403: the signature or key is invalid, or no permission
│   │   └── ThrottledError      429: over the function's concurrency, or the limits of a key
│   └── ServiceError            5xx, or an invalid response
├── VectorSpaceError            vectors of two vector spaces would be mixed
├── AwsError                    an API of AWS refuses, does not answer, or lacks a resource
└── FileError                   a file cannot be read or written
"""

import re
import sys
from contextlib import suppress
from typing import Self

_POSITION = re.compile(r"texts\[\d+\]")


class EmbeddingClientError(Exception):
    """The base class of all exceptions that this package raises."""


class ConfigurationError(EmbeddingClientError):
    """The URL, the region or an argument is invalid."""


class CredentialsError(ConfigurationError):
    """No AWS credentials were found, or reading or refreshing them failed."""


class UnreachableError(EmbeddingClientError):
    """The endpoint did not respond, after all attempts."""


class ResponseError(EmbeddingClientError):
    """The endpoint responded, but not with a success.

    Attributes:
        reason: The endpoint's message, without status and request ID.
        status: The HTTP status.
        code: The endpoint's code for the error, such as `input_too_long`, or None.
        field: The field of the request that is invalid, or None.
        request_id: The request's ID in the endpoint's log, or None.
        position: The position of the text that caused the error, from 0, or None if the error is
            not about one text.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        field: str | None = None,
        request_id: str | None = None,
        position: int | None = None,
    ) -> None:
        super().__init__(f"{message} (status {status}, request {request_id or 'without an id'})")
        self.reason = message
        self.status = status
        self.code = code
        self.field = field
        self.request_id = request_id
        self.position = position

    def at(self, position: int) -> Self:
        """Return the same error for a text at another position.

        The endpoint counts the texts of one request. The caller counts the texts of one call.
        """
        name = f"texts[{position}]"
        return type(self)(
            _POSITION.sub(name, self.reason, count=1),
            status=self.status,
            code=self.code,
            field=self.field and _POSITION.sub(name, self.field),
            request_id=self.request_id,
            position=position,
        )


class RequestError(ResponseError):
    """The request is invalid. Sending it again does not help."""


class ForbiddenError(RequestError):
    """The signature or the API key is invalid, or the caller may not use the endpoint."""


class ThrottledError(RequestError):
    """Every attempt exceeded the function's concurrency, or the limits of an API key."""


class ServiceError(ResponseError):
    """Every attempt failed in the endpoint, or its response is invalid."""


class VectorSpaceError(EmbeddingClientError):
    """Vectors of two vector spaces would be mixed, which cannot be compared."""


class AwsError(EmbeddingClientError):
    """An API of AWS refuses a request, does not answer, or has another resource than needed."""


class FileError(EmbeddingClientError):
    """A file cannot be read or written."""


def counted(count: int, noun: str) -> str:
    """Return a number of things in words: `1 row`, `1,200 rows`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def print_error(text: str) -> None:
    """Print a line to standard error; that it is closed or full must not end a run."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
