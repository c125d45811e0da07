"""Embeds a whole file; a run that ended continues where it ended."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from embedding_client.client import EmbeddingClient
from embedding_client.errors import FileError
from embedding_client.outputs import Outputs
from embedding_client.progress import Progress, progress_on
from embedding_client.protocol import EmbedOptions
from embedding_client.refusals import check_names, refused, row_error, unreadable
from embedding_client.replies import Part
from embedding_client.resuming import check_resumes
from embedding_client.sources import Record, Row, Source
from embedding_client.vector_log import Rejected, VectorLog
from embedding_client.writers import WRITERS, Table, check_parquet

__all__ = ["OnError", "Summary", "embed_file"]

OnError = Literal["stop", "skip", "null"]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """What a run did.

    Attributes:
        rows: in the output.
        rejected: rows of the input without a vector.
        report: the file that lists them; None where there is none.
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
    """Embeds every row of a file and writes rows and vectors.

    Vectors are kept in `OUTPUT.part` until all are there. After an error, Ctrl-C or a crash the
    same call continues after the last one in it: no row is lost or doubled, and only the few that
    were being embedded are sent again.

    Args:
        connect: makes a client that refuses vector spaces other than the one given, if any.
        source: the file.
        output: ends in .jsonl, .parquet or .npy.
        options: how to embed.
        overwrite: whether to replace an output that is there.
        on_error: what to do with a row that cannot be embedded: `stop` there, `skip` it, or write
            it with `null` for a vector. `OUTPUT.errors.jsonl` lists such rows.
        progress: makes what shows the progress, from a name, total and done.

    Raises:
        EmbeddingClientError: see `embedding_client.errors`.
    """
    outputs = Outputs(output)
    outputs.check(source, overwrite=overwrite)
    if on_error == "null" and outputs.suffix == ".npy" and options.dtype != "float32":
        raise FileError("An array of integers cannot hold null. Use --on-error skip, or .jsonl.")
    job = {"source": source.identity(), "options": asdict(options)}
    with VectorLog(outputs.part) as log:
        if log.job is not None:
            check_resumes(log, job, name=source.name)
        log.job = job
        total = _survey(source, outputs.suffix, on_error)
        if on_error == "stop" and log.rejected:
            _stop(source, log)
        if log.rows < total:
            shown = progress(source.name, total=total, done=log.rows)
            with connect(log.vector_space) as client, closing(shown):
                _embed_rest(client, source, log, options=options, on_error=on_error, shown=shown)
        if log.rejected and len(log.rejected) == total:
            first = log.rejected[0]["error"]
            raise FileError(f"{source.name}: no row can be embedded; the first {first}.")
        summary = _write(outputs, source, log, overwrite=overwrite, on_error=on_error)
    outputs.part.unlink(missing_ok=True)
    return summary


def _survey(source: Source, suffix: str, on_error: OnError) -> int:
    """Reads the file once before anything is sent, so that what is wrong is known at once."""
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
    log: VectorLog,
    *,
    options: EmbedOptions,
    on_error: OnError,
    shown: Progress,
) -> None:
    waiting: deque[Row] = deque()  # rows that were read and are not in the log yet
    texts = _texts(source, log.rows, waiting)
    for part in client.iter_parts(texts, **asdict(options)):
        taken = _take(waiting, part.count)
        rejected = _rejected(taken, part)
        if on_error == "stop" and rejected:
            at = min(rejected)
            if at:
                log.append(part.vectors[:at], vector_space=client.vector_space)
            raise row_error(source.name, taken[at], rejected[at])
        log.append(part.vectors, vector_space=client.vector_space, rejected=rejected)
        shown.update(len(taken))
    if waiting:
        rest = {position: unreadable(row) for position, row in enumerate(waiting)}
        log.append(np.empty((0, 0)), vector_space=None, rejected=rest)


def _texts(source: Source, start: int, waiting: deque[Row]) -> Iterator[str]:
    for row in source.rows(start=start):
        waiting.append(row)
        if row.text is not None:
            yield row.text


def _take(waiting: deque[Row], count: int) -> list[Row]:
    """Takes the rows up to the one that holds the last of `count` texts."""
    taken: list[Row] = []
    while count:
        taken.append(waiting.popleft())
        count -= taken[-1].text is not None
    return taken


def _rejected(rows: list[Row], part: Part) -> dict[int, Rejected]:
    rejected: dict[int, Rejected] = {}
    position = 0
    for at, row in enumerate(rows):
        if row.text is None:
            rejected[at] = unreadable(row)
            continue
        if position in part.refused:
            rejected[at] = refused(part.refused[position])
        position += 1
    return rejected


def _stop(source: Source, log: VectorLog) -> None:
    number = min(log.rejected)
    row = next(source.rows(start=number))
    raise row_error(source.name, row, log.rejected[number])


def _write(
    outputs: Outputs, source: Source, log: VectorLog, *, overwrite: bool, on_error: OnError
) -> Summary:
    skip = on_error == "skip"

    def pairs() -> Iterator[tuple[Record, npt.NDArray[Any] | None]]:
        vectors = (vector for block in log.read() for vector in block)
        for row in source.rows():
            if row.number - 1 not in log.rejected:
                vector = next(vectors, None)
                if vector is None:
                    raise source.changed()
                yield row.fields, vector
            elif not skip:
                yield row.fields, None

    def check() -> None:
        source.check_unchanged()
        outputs.check(source, overwrite=overwrite)  # a file may have come there in the meantime

    table = Table(
        rows=log.rows - (len(log.rejected) if skip else 0),
        pairs=pairs,
        width=log.width,
        dtype=log.dtype,
        vector_space=log.vector_space,
    )
    about: dict[str, object] = {
        "vector_space": log.vector_space,
        "count": table.rows,
        "source": source.name,
        "without_vector": len(log.rejected),
    }
    outputs.place(
        lambda file: WRITERS[outputs.suffix](file, table),
        about=about,
        report=_report(source, log.rejected),
        check=check,
    )
    return Summary(
        rows=table.rows,
        rejected=len(log.rejected),
        report=outputs.report if log.rejected else None,
    )


def _report(source: Source, rejected: Mapping[int, Rejected]) -> list[dict[str, object]]:
    if not rejected:
        return []
    return [
        {"row": row.number, "line": row.line, **rejected[row.number - 1]}
        for row in source.rows()
        if row.number - 1 in rejected
    ]
