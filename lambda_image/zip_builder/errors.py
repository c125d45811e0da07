"""The error of a zip that cannot be built."""

__all__ = ["ZipError"]


class ZipError(Exception):
    """The zip cannot be built; the message says why and what to do."""
