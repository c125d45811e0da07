"""Embeds a file, and resumes after an interruption."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy.typing as npt

from embedding_client.checkpoint import Checkpoint, Rejected
from embedding_client.client import EmbeddingClient
from embedding_client.errors import FileError
from embedding_client.options import EmbedOptions, data_type
from embedding_client.outputs import Outputs
from embedding_client.progress import Progress, progress_on
from embedding_client.readers import Record
from embedding_client.resuming import check_resumes
from embedding_client.rows import check_names, embed_rows, row_error, unreadable
from embedding_client.sources import Source
from embedding_client.writers import WRITERS, Table, check_parquet

__all__ = ["OnError", "Summary", "embed_file"]

OnError = Literal["stop", "skip", "null"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The result of a run.

    Attributes:
        rows: The number of rows in the output.
        rejected: The number of rows of the input without a vector.
        report: The file that lists them, or None if every row has a vector.
    """

    rows: int
    rejected: int
    report: Path | None


def embed_file(
    connect: Callable[[str | None], EmbeddingClient],
    source: Source,
    output: Path,
    *,
    options: EmbedOptions,
    overwrite: bool = False,
    on_error: OnError = "stop",
    progress: Callable[..., Progress] = progress_on,
) -> Summary:
    """Embed every row of a file and write the rows with their vectors.

    The vectors are stored in a checkpoint, `OUTPUT.part`, until all rows are embedded. After an
    error, Ctrl-C or a crash, the same call resumes from the checkpoint. No row is lost or
    duplicated. Only the requests that were in flight are sent again.

    Args:
        connect: Returns a client that accepts only the given vector space, or any with None.
        source: The file.
        output: The path of the output. It ends in .jsonl, .parquet or .npy.
        options: The embedding options.
        overwrite: Whether to replace an existing output.
        on_error: How to handle a row that cannot be embedded: `stop`, `skip` it, or write it with
            `null` as the vector. `OUTPUT.errors.jsonl` lists these rows.
        progress: Returns the progress display for a name, a total and a number of complete rows.

    Raises:
        EmbeddingClientError: See `embedding_client.errors`.
    """
    outputs = Outputs(output)
    outputs.check(source, overwrite=overwrite)
    if on_error == "null" and outputs.suffix == ".npy" and data_type(options) != "float32":
        raise FileError("An array of integers cannot hold null. Use --on-error skip, or .jsonl.")
    job = {"source": source.identity(), "options": dict(options)}
    with Checkpoint(outputs.part) as checkpoint:
        if checkpoint.job is not None:
            check_resumes(checkpoint, job, name=source.name)
        checkpoint.job = job
        total = _survey(source, outputs.suffix, on_error)
        if on_error == "stop" and checkpoint.rejected:
            _stop(source, checkpoint)
        if checkpoint.rows < total:
            shown = progress(source.name, total=total, done=checkpoint.rows)
            with connect(checkpoint.vector_space) as client, closing(shown):
                _embed_rest(
                    client, source, checkpoint, options=options, on_error=on_error, shown=shown
                )
        if checkpoint.rejected and len(checkpoint.rejected) == total:
            first = checkpoint.rejected[0]["error"]
            raise FileError(f"{source.name}: no row can be embedded; the first {first}.")
        summary = _write(outputs, source, checkpoint, overwrite=overwrite, on_error=on_error)
    outputs.part.unlink(missing_ok=True)
    return summary


def _survey(source: Source, suffix: str, on_error: OnError) -> int:
    """Read the file once before anything is sent, to report its errors at once. Count its rows."""
    total = 0

    def records() -> Iterator[Record]:
        nonlocal total
        for row in source.rows():
            total = row.number
            if row.problem and on_error == "stop":
                raise row_error(source.name, row, unreadable(row))
            check_names(source.name, row, suffix)
            if not row.problem or on_error == "null":
                yield row.fields

    if suffix == ".parquet":
        check_parquet(records())
    else:
        deque(records(), maxlen=0)
    return total


def _embed_rest(
    client: EmbeddingClient,
    source: Source,
    checkpoint: Checkpoint,
    *,
    options: EmbedOptions,
    on_error: OnError,
    shown: Progress,
) -> None:
    rows = source.rows(start=checkpoint.rows)
    for part in embed_rows(client, rows, options):
        if on_error == "stop" and part.rejected:
            at = min(part.rejected)
            if at:
                checkpoint.append(part.vectors[:at], vector_space=client.vector_space)
            raise row_error(source.name, part.rows[at], part.rejected[at])
        checkpoint.append(part.vectors, vector_space=client.vector_space, rejected=part.rejected)
        shown.update(len(part.rows))


def _stop(source: Source, checkpoint: Checkpoint) -> None:
    number = min(checkpoint.rejected)
    row = next(source.rows(start=number))
    raise row_error(source.name, row, checkpoint.rejected[number])


def _write(
    outputs: Outputs, source: Source, checkpoint: Checkpoint, *, overwrite: bool, on_error: OnError
) -> Summary:
    skip = on_error == "skip"

    def pairs() -> Iterator[tuple[Record, npt.NDArray[Any] | None]]:
        vectors = (vector for block in checkpoint.read() for vector in block)
        for row in source.rows():
            if row.number - 1 not in checkpoint.rejected:
                vector = next(vectors, None)
                if vector is None:
                    raise source.changed()
                yield row.fields, vector
            elif not skip:
                yield row.fields, None

    def check() -> None:
        source.check_unchanged()
        outputs.check(source, overwrite=overwrite)  # a file may have appeared since

    table = Table(
        rows=checkpoint.rows - (len(checkpoint.rejected) if skip else 0),
        pairs=pairs,
        width=checkpoint.width,
        dtype=checkpoint.dtype,
        vector_space=checkpoint.vector_space,
    )
    about: dict[str, object] = {
        "vector_space": checkpoint.vector_space,
        "count": table.rows,
        "source": source.name,
        "without_vector": len(checkpoint.rejected),
    }
    outputs.place(
        lambda file: WRITERS[outputs.suffix](file, table),
        about=about,
        report=_report(source, checkpoint.rejected),
        check=check,
    )
    return Summary(
        rows=table.rows,
        rejected=len(checkpoint.rejected),
        report=outputs.report if checkpoint.rejected else None,
    )


def _report(source: Source, rejected: Mapping[int, Rejected]) -> list[dict[str, object]]:
    if not rejected:
        return []
    return [
        {"row": row.number, "line": row.line, **rejected[row.number - 1]}
        for row in source.rows()
        if row.number - 1 in rejected
    ]
