"""Messages to the user on standard error, beside the report on standard output."""

import sys
from contextlib import suppress

__all__ = ["say"]


def say(text: str) -> None:
    """Print a line to standard error, if it can be written."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
