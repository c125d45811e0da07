"""Embeds the rows of a file, with error messages in terms of the command line."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from embedding_client.checkpoint import Rejected
from embedding_client.client import EmbeddingClient
from embedding_client.errors import FileError, RequestError
from embedding_client.options import EmbedOptions
from embedding_client.responses import Part
from embedding_client.sources import Row
from embedding_client.writers import ADDED

__all__ = ["EmbeddedRows", "check_names", "embed_rows", "row_error", "unreadable"]

# `"texts[7]" has 300 tokens…`: the message names the row instead.
_POSITION = re.compile(r'^"?texts\[\d+\]"? ')
# `Send "truncate": true …` is advice for programs that write the request themselves.
_ADVICE = re.compile(r'\s*Send "[^.]*\.')
_FLAGS = {"input_too_long": "--truncate right embeds only its beginning"}


@dataclass(frozen=True, kw_only=True)
class EmbeddedRows:
    """Some consecutive rows.

    Attributes:
        rows: The rows.
        vectors: The vectors of the rows that have one, in order.
        rejected: The other rows, by their position among these rows.
    """

    rows: list[Row]
    vectors: npt.NDArray[Any]
    rejected: dict[int, Rejected]


def embed_rows(
    client: EmbeddingClient, rows: Iterable[Row], options: EmbedOptions
) -> Iterator[EmbeddedRows]:
    """Embed rows, and continue after rows without a text and after texts that are refused."""
    waiting: deque[Row] = deque()  # rows that were read and are in no part yet

    def texts() -> Iterator[str]:
        for row in rows:
            waiting.append(row)
            if row.text is not None:
                yield row.text

    for part in client.iter_parts(texts(), **options):
        yield _take(waiting, part)
    if waiting:
        rejected = {position: unreadable(row) for position, row in enumerate(waiting)}
        yield EmbeddedRows(rows=list(waiting), vectors=np.empty((0, 0)), rejected=rejected)


def _take(waiting: deque[Row], part: Part) -> EmbeddedRows:
    """Remove the rows up to the last text of a part."""
    rows: list[Row] = []
    rejected: dict[int, Rejected] = {}
    position = 0
    while position < part.count:
        row = waiting.popleft()
        if row.text is None:
            rejected[len(rows)] = unreadable(row)
        else:
            if position in part.refused:
                rejected[len(rows)] = _refused(part.refused[position])
            position += 1
        rows.append(row)
    return EmbeddedRows(rows=rows, vectors=part.vectors, rejected=rejected)


def _refused(error: RequestError) -> Rejected:
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
