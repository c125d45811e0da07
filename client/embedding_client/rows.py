"""The error messages about rows, in terms of the command line."""

import re

from embedding_client.checkpoint import Rejected
from embedding_client.errors import FileError, RequestError
from embedding_client.sources import Row
from embedding_client.writers import ADDED

__all__ = ["check_names", "refused", "row_error", "unreadable"]

# `"texts[7]" has 300 tokens…`: the message names the row instead.
_POSITION = re.compile(r'^"?texts\[\d+\]"? ')
# `Send "truncate": true …` is advice for programs that write the request themselves.
_ADVICE = re.compile(r'\s*Send "[^.]*\.')
_FLAGS = {"input_too_long": "--truncate right embeds only its beginning"}


def refused(error: RequestError) -> Rejected:
    """Return why the endpoint refused a row. The message continues after the row's position."""
    message, found = _POSITION.subn("", _ADVICE.sub("", error.reason))
    message = message.rstrip(". ") if found else f"was refused: {message.rstrip('. ')}"
    flag = _FLAGS.get(error.code or "")
    return {"error": f"{message}; {flag}" if flag else message, "code": error.code}


def unreadable(row: Row) -> Rejected:
    """Return why a row has no text."""
    return {"error": row.problem, "code": None}


def row_error(name: str, row: Row, rejected: Rejected) -> FileError:
    """Return the error that ends a run at a row."""
    return FileError(
        f"{name}: {row.place} {rejected['error']}. To continue without it, use --on-error skip or "
        "--on-error null."
    )


def check_names(name: str, row: Row, suffix: str) -> None:
    """Check that the output does not replace a field of a row.

    Raises:
        FileError: If the row has a field that the output adds.
    """
    for added in ADDED[suffix]:
        if added in row.fields:
            raise FileError(
                f"{name}: {row.place} already has a field {added!r}, which the {suffix} output "
                "adds. Rename or remove it in the input."
            )
