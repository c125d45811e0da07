"""The exceptions of jobs. Their messages are for the user; no message quotes a text.

Step Functions tries a step again after `UnavailableError` alone: it knows an error by its class.
"""

__all__ = [
    "BatchError",
    "ChangedInputError",
    "ChangedModelError",
    "IncompleteJobError",
    "RejectedRowsError",
    "UnavailableError",
    "VectorSpaceError",
]


class BatchError(Exception):
    """A job cannot be planned or continued."""


class ChangedInputError(BatchError):
    """An input file changed after the job was planned."""


class ChangedModelError(BatchError):
    """The model is not the one that the job was planned with."""


class IncompleteJobError(BatchError):
    """Items of the job are not done yet. The same job can be run again."""


class RejectedRowsError(BatchError):
    """More rows were rejected than the job allows. All other rows are done."""


class UnavailableError(BatchError):
    """S3 Vectors throttles the requests, or cannot be reached, for longer than they are retried."""


class VectorSpaceError(BatchError):
    """The index, or a file, has vectors of another vector space."""
