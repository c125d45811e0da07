"""What is wrong with a row, in the words of the command line."""

import re

from embedding_client.errors import FileError, RequestError
from embedding_client.sources import Row
from embedding_client.vector_log import Rejected
from embedding_client.writers import ADDED

__all__ = ["check_names", "refused", "row_error", "unreadable"]

# `"texts[7]" has 300 tokens…`: the row is named in front of it.
_PLACE = re.compile(r'^"?texts\[\d+\]"? ')
# `Send "truncate": true …` is advice for programs that write the request themselves.
_ADVICE = re.compile(r'\s*Send "[^.]*\.')
_FLAGS = {"input_too_long": "--truncate right embeds only its beginning"}


def refused(error: RequestError) -> Rejected:
    """Returns why the endpoint refused a row; the error is read after the row's place."""
    said, found = _PLACE.subn("", _ADVICE.sub("", error.reason))
    said = said.rstrip(". ") if found else f"was refused: {said.rstrip('. ')}"
    flag = _FLAGS.get(error.code or "")
    return {"error": f"{said}; {flag}" if flag else said, "code": error.code}


def unreadable(row: Row) -> Rejected:
    """Returns why a row has no text."""
    return {"error": row.problem, "code": None}


def row_error(name: str, row: Row, rejected: Rejected) -> FileError:
    """Returns the error that ends a run at a row."""
    return FileError(
        f"{name}: {row.place} {rejected['error']}. To go on without it, use --on-error skip or "
        "--on-error null."
    )


def check_names(name: str, row: Row, suffix: str) -> None:
    """Checks that a row has no field that the output adds.

    Raises:
        FileError: it has one, which would be replaced.
    """
    for added in ADDED[suffix]:
        if added in row.fields:
            raise FileError(
                f"{name}: {row.place} has a field {added!r} already, and the {suffix} output adds "
                "one of that name. Rename or remove it in the input."
            )
