"""The command's error."""

__all__ = ["CostError"]


class CostError(ValueError):
    """Something is missing or wrong in what the user gave; the message says what is allowed."""
