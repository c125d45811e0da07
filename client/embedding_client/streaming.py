"""Embeds rows as they arrive and writes a JSON line for each."""

import json
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import IO, Any

from embedding_client.checkpoint import Rejected
from embedding_client.client import EmbeddingClient
from embedding_client.options import EmbedOptions
from embedding_client.row_errors import check_names, refused, row_error, unreadable
from embedding_client.sources import Row
from embedding_client.writers import json_line

__all__ = ["embed_stream"]

# A pipe may be slow or endless, so each group is written before the next one is read.
_GROUP = 64


def embed_stream(
    client: EmbeddingClient,
    rows: Iterable[Row],
    *,
    name: str,
    options: EmbedOptions,
    on_error: str,
    output: IO[str],
    report: IO[str],
) -> int:
    """Embed rows and write each with its vector.

    Args:
        client: The client to embed with.
        rows: The rows.
        name: The name of the input in messages.
        options: The embedding options.
        on_error: `stop`, `skip` or `null`, as in `embed_file`.
        output: Receives a JSON line for each row.
        report: Receives a JSON line for each row without a vector.

    Returns:
        The number of rows without a vector.
    """
    remaining, rejections = iter(rows), 0
    while group := list(islice(remaining, _GROUP)):
        for row in group:
            check_names(name, row, ".jsonl")
        vectors, rejected = _embed(client, group, options)
        for row in group:
            if row.number not in rejected:
                vector = vectors[row.number]
                output.write(json_line(row.fields, vector, client.vector_space).decode())
                continue
            reason = rejected[row.number]
            if on_error == "stop":
                output.flush()
                raise row_error(name, row, reason)
            if on_error == "null":
                output.write(json_line(row.fields, None, client.vector_space).decode())
            report.write(json.dumps({"row": row.number, "line": row.line, **reason}) + "\n")
            rejections += 1
        output.flush()
    return rejections


def _embed(
    client: EmbeddingClient, group: list[Row], options: EmbedOptions
) -> tuple[Mapping[int, Any], Mapping[int, Rejected]]:
    """Return the vectors and the rejections, by row number."""
    rejected = {row.number: unreadable(row) for row in group if row.text is None}
    vectors = {}
    waiting = iter([row for row in group if row.text is not None])
    texts = [row.text for row in group if row.text is not None]
    for part in client.iter_parts(texts, **options):
        embedded = iter(part.vectors)
        for position, row in enumerate(islice(waiting, part.count)):
            if position in part.refused:
                rejected[row.number] = refused(part.refused[position])
            else:
                vectors[row.number] = next(embedded)
    return vectors, rejected
