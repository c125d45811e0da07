"""The exceptions of a load. Their messages are for the user; no message quotes a text.

BatchError                       the base of the errors of jobs
└── LoadError                    a load cannot be planned or continued
    ├── VectorSpaceError         the index or a file has vectors of another vector space
    ├── IncompleteLoadError      files are not loaded yet
    ├── RejectedVectorsError     more rows were rejected than the load allows
    └── UnavailableError         S3 Vectors cannot take the request now; the only one to try again
"""

from jobs.embed.errors import BatchError, RejectedRowsError

__all__ = [
    "IncompleteLoadError",
    "LoadError",
    "RejectedVectorsError",
    "UnavailableError",
    "VectorSpaceError",
]


class LoadError(BatchError):
    """A load cannot be planned or continued."""


class VectorSpaceError(LoadError):
    """The index, or a file, has vectors of another vector space."""


class IncompleteLoadError(LoadError):
    """Files of the load are not loaded yet. The same load can be started again."""


class RejectedVectorsError(LoadError, RejectedRowsError):
    """More rows were rejected than the load allows. All others are in the index."""


class UnavailableError(LoadError):
    """S3 Vectors throttles the requests, or cannot be reached, for longer than they are retried."""
