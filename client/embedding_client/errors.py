"""What the client raises.

EmbeddingClientError
├── ConfigurationError          the URL, the region or an argument cannot be used
│   └── CredentialsError        no credentials, or none that could be read or refreshed
├── UnreachableError            no answer came: connection, TLS, timeout
├── AnswerError                 an answer came that is no success
│   ├── RequestError            4xx: the request is at fault
│   │   ├── ForbiddenError      403: the signature or the permission
│   │   └── ThrottledError      429: over the function's concurrency
│   └── ServiceError            5xx, or an answer that makes no sense
├── VectorSpaceError            vectors of two spaces would be mixed
└── FileError                   a file to read or to write cannot be used
"""

import re
from typing import Self

__all__ = [
    "AnswerError",
    "ConfigurationError",
    "CredentialsError",
    "EmbeddingClientError",
    "FileError",
    "ForbiddenError",
    "RequestError",
    "ServiceError",
    "ThrottledError",
    "UnreachableError",
    "VectorSpaceError",
]


_PLACE = re.compile(r"texts\[\d+\]")


class EmbeddingClientError(Exception):
    """Anything that this package raises on purpose."""


class ConfigurationError(EmbeddingClientError):
    """The URL, the region or an argument cannot be used."""


class CredentialsError(ConfigurationError):
    """No AWS credentials were found, or they could not be read or refreshed."""


class UnreachableError(EmbeddingClientError):
    """No answer came from the endpoint, after all attempts."""


class AnswerError(EmbeddingClientError):
    """The endpoint answered, and not with a success.

    Attributes:
        reason: the endpoint's message alone.
        status: the HTTP status.
        code: the endpoint's name for the error, e.g. `input_too_long`; None where it has none.
        field: the field of the request that is at fault, or None.
        request_id: what to look for in the endpoint's log, or None.
        position: which of the given texts is at fault, from 0; None if it is not one text.
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
        """Returns the same error for the text at another position.

        The endpoint counts the texts of one request; callers count the texts that they gave.
        """
        here = f"texts[{position}]"
        return type(self)(
            _PLACE.sub(here, self.reason, count=1),
            status=self.status,
            code=self.code,
            field=self.field and _PLACE.sub(here, self.field),
            request_id=self.request_id,
            position=position,
        )


class RequestError(AnswerError):
    """The request is at fault: sending it again changes nothing."""


class ForbiddenError(RequestError):
    """The signature was refused, or the caller may not invoke this function's URL."""


class ThrottledError(RequestError):
    """The function's concurrency was used up, on every attempt."""


class ServiceError(AnswerError):
    """The endpoint failed, on every attempt, or gave an answer that makes no sense."""


class VectorSpaceError(EmbeddingClientError):
    """Vectors of two vector spaces would be mixed; they cannot be compared."""


class FileError(EmbeddingClientError):
    """A file to read or to write cannot be used."""
