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
        status: the HTTP status.
        code: the endpoint's word for the fault, e.g. `input_too_long`; None where it has none.
        field: the field of the request that is at fault, or None.
        request_id: what to look for in the endpoint's log, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        field: str | None = None,
        request_id: str | None = None,
    ) -> None:
        super().__init__(f"{message} (status {status}, request {request_id or 'without an id'})")
        self.status = status
        self.code = code
        self.field = field
        self.request_id = request_id


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
