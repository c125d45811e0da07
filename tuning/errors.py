"""The command's errors."""

__all__ = ["SizeRefusedError", "TuneError"]


class TuneError(ValueError):
    """Something cannot be measured; the message says what was found and what is allowed."""


class SizeRefusedError(TuneError):
    """The account does not allow a function so much memory."""
