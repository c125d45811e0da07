"""The exceptions of a batch job. Their messages are for the user; no message quotes a text."""

__all__ = [
    "BatchError",
    "ChangedInputError",
    "ChangedModelError",
    "IncompleteJobError",
    "RejectedRowsError",
]


class BatchError(Exception):
    """A job cannot be planned or continued."""


class ChangedInputError(BatchError):
    """An input file changed after the job was planned."""


class ChangedModelError(BatchError):
    """The model is not the one that the job was planned with."""


class IncompleteJobError(BatchError):
    """Shards of the job have no output yet. The same job can be run again."""


class RejectedRowsError(BatchError):
    """More rows were rejected than the job allows. All other rows have their vectors."""
