"""The command's errors."""

__all__ = ["SizeRefusedError", "TuneError"]


class TuneError(ValueError):
    """A measurement is not possible. The message names the found and the allowed values."""


class SizeRefusedError(TuneError):
    """The account does not allow a function so much memory."""
