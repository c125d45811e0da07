"""The errors of calls to S3 Vectors. The log names their classes, callers never see them."""

__all__ = [
    "AccessDeniedError",
    "IndexNotFoundError",
    "RejectedError",
    "S3VectorsError",
    "ThrottledError",
    "UnavailableError",
]


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
