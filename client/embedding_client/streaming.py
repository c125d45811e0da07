"""Embeds rows as they come and writes a JSON line for each."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from itertools import islice
from typing import IO, Any

from embedding_client.client import EmbeddingClient
from embedding_client.protocol import EmbedOptions
from embedding_client.refusals import check_names, refused, row_error, unreadable
from embedding_client.sources import Row
from embedding_client.vector_log import Rejected
from embedding_client.writers import json_line

__all__ = ["embed_stream"]

# A pipe may be slow or endless: each group is answered before the next one is read.
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
    """Embeds rows and writes each with its vector.

    Args:
        client: to embed with.
        rows: the rows.
        name: what messages call them.
        options: how to embed.
        on_error: `stop`, `skip` or `null`, as in `embed_file`.
        output: gets a JSON line for each row.
        report: gets a JSON line for each row without a vector.

    Returns:
        How many rows have no vector.
    """
    pending, rejections = iter(rows), 0
    while group := list(islice(pending, _GROUP)):
        for row in group:
            check_names(name, row, ".jsonl")
        vectors, rejected = _embed(client, group, options)
        for row in group:
            if row.number not in rejected:
                vector = vectors[row.number]
                output.write(json_line(row.fields, vector, client.vector_space).decode())
                continue
            why = rejected[row.number]
            if on_error == "stop":
                output.flush()
                raise row_error(name, row, why)
            if on_error == "null":
                output.write(json_line(row.fields, None, client.vector_space).decode())
            report.write(json.dumps({"row": row.number, "line": row.line, **why}) + "\n")
            rejections += 1
        output.flush()
    return rejections


def _embed(
    client: EmbeddingClient, group: list[Row], options: EmbedOptions
) -> tuple[Mapping[int, Any], Mapping[int, Rejected]]:
    """Returns the vectors and the rejections by the rows' numbers."""
    rejected = {row.number: unreadable(row) for row in group if row.text is None}
    vectors = {}
    waiting = iter([row for row in group if row.text is not None])
    texts = [row.text for row in group if row.text is not None]
    for part in client.iter_parts(texts, **asdict(options)):
        embedded = iter(part.vectors)
        for position, row in enumerate(islice(waiting, part.count)):
            if position in part.refused:
                rejected[row.number] = refused(part.refused[position])
            else:
                vectors[row.number] = next(embedded)
    return vectors, rejected
