"""Embeds rows as they arrive and writes a JSON line for each."""

import json
from collections.abc import Iterable
from itertools import islice
from typing import IO

from embedding_client.client import EmbeddingClient
from embedding_client.options import EmbedOptions
from embedding_client.rows import check_names, embed_rows, row_error
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
        for part in embed_rows(client, group, options):
            vectors = iter(part.vectors)
            for position, row in enumerate(part.rows):
                reason = part.rejected.get(position)
                if reason is not None:
                    if on_error == "stop":
                        output.flush()
                        raise row_error(name, row, reason)
                    report.write(json.dumps({"row": row.number, "line": row.line, **reason}) + "\n")
                    rejections += 1
                if reason is None or on_error == "null":
                    vector = next(vectors) if reason is None else None
                    output.write(json_line(row.fields, vector, client.vector_space).decode())
        output.flush()
    return rejections
