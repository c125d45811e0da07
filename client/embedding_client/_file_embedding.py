"""Embeds the rows of files and pipes, and resumes after an interruption.

`embed_file` reads its input twice: once to find its errors before anything is sent, and once to
embed and write it. `embed_stream` reads a pipe once.
"""

import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from embedding_client._client import EmbeddingClient
from embedding_client._outputs import (
    ADDED,
    WRITERS,
    AsLine,
    Checkpoint,
    Outputs,
    Pair,
    Rejected,
    Table,
    parquet_schema,
)
from embedding_client._protocol import EmbedOptions, data_type
from embedding_client._readers import Row, TextSource
from embedding_client._responses import EmbeddedTexts
from embedding_client.errors import FileError, RequestError, counted
from embedding_client.progress import progress_on
from embedding_client.rows import Fields

OnError = Literal["stop", "skip", "null"]

_GROUP = 64
# `"texts[7]" has 300 tokens…`: the message names the row instead.
_POSITION = re.compile(r'^"?texts\[\d+\]"? ')
# `Send "truncate": true …` is advice for programs that write the request themselves.
_ADVICE = re.compile(r'\s*Send "[^.]*\.')
_FLAGS = {"input_too_long": "--truncate right embeds only its beginning"}


@dataclass(frozen=True, kw_only=True)
class Summary:
    """The rows of the output, the input's rows without a vector, and the file that lists these."""

    rows: int
    rejected: int
    report: Path | None


def embed_file(
    connect: Callable[[str | None], AbstractContextManager[EmbeddingClient]],
    source: TextSource,
    output: Path,
    *,
    options: EmbedOptions,
    overwrite: bool = False,
    on_error: OnError = "stop",
) -> Summary:
    """Embed every row of a file and write the rows with their vectors.

    The vectors are stored in a checkpoint, `OUTPUT.part`, until all rows are embedded. After an
    error, Ctrl-C or a crash, the same call resumes from the checkpoint. No row is lost or
    duplicated. Only the requests that were in flight are sent again.

    Args:
        connect: Returns a client that accepts only a vector space, that of an earlier run, or None
            for any. It is called if a row has no vector yet, and the client is closed.
        source: The input.
        output: A path with the suffix `.jsonl`, `.parquet` or `.npy`.
        options: See `EmbedOptions`.
        overwrite: Whether to replace an output that exists.
        on_error: `stop` at a row that cannot be embedded, `skip` it, or write `null` as its vector.

    Raises:
        EmbeddingClientError: See `embedding_client.errors`.
    """
    outputs = Outputs(output)
    outputs.check(source, overwrite=overwrite)
    if on_error == "null" and outputs.suffix == ".npy" and data_type(options) != "float32":
        raise FileError("An array of integers cannot hold null. Use --on-error skip, or .jsonl.")
    with Checkpoint(outputs.part) as checkpoint:
        survey = _survey(source, outputs.suffix, on_error, checkpoint.rejected)
        job = {"source": source.identity(), "options": dict(options)}
        if checkpoint.job is not None:
            check_resumes(checkpoint, job, name=source.name)
        checkpoint.job = job
        if not survey.rows:
            raise nothing_in(source.name)
        if on_error == "stop" and survey.rejected is not None:
            raise row_error(source.name, *survey.rejected)
        written = 0

        def write(file: IO[bytes]) -> tuple[dict[str, object], list[dict[str, object]]]:
            nonlocal written
            written = run.write(file, outputs.suffix, survey.schema)
            source.check_unchanged()
            outputs.check(source, overwrite=overwrite)  # a file may have appeared since
            about: dict[str, object] = {
                "vector_space": checkpoint.vector_space,
                "count": written,
                "source": source.name,
                "without_vector": len(checkpoint.rejected),
            }
            return about, run.report

        with ExitStack() as stack:
            client = shown = None
            if checkpoint.rows < survey.rows:
                client = stack.enter_context(connect(checkpoint.vector_space))
                bar = progress_on(source.name, total=survey.rows, done=checkpoint.rows)
                shown = stack.enter_context(closing(bar))
            run = _Run(source, checkpoint, options, on_error, client, shown)
            outputs.place(write)
        rejected = len(checkpoint.rejected)
    outputs.part.unlink(missing_ok=True)
    return Summary(rows=written, rejected=rejected, report=outputs.report if rejected else None)


class _Survey(NamedTuple):
    """The result of the first reading."""

    rows: int
    schema: Any  # of Parquet's output, without the vectors
    rejected: tuple[Row, Rejected] | None  # the first row that an earlier run rejected


def _survey(
    source: TextSource, suffix: str, on_error: OnError, rejected: Mapping[int, Rejected]
) -> _Survey:
    """Read the file before anything is sent, to find its errors early and to count its rows."""
    total = 0
    first_rejected: tuple[Row, Rejected] | None = None

    def records() -> Iterator[Fields]:
        nonlocal total, first_rejected
        for row in source.rows(identify=True):
            total = row.number
            if row.problem and on_error == "stop":
                raise row_error(source.name, row, unreadable(row))
            check_names(source.name, row, suffix)
            if first_rejected is None and row.number - 1 in rejected:
                first_rejected = row, rejected[row.number - 1]
            if not row.problem or on_error == "null":
                yield row.fields

    if suffix == ".parquet":
        return _Survey(schema=parquet_schema(records()), rows=total, rejected=first_rejected)
    deque(records(), maxlen=0)
    return _Survey(total, None, first_rejected)


@dataclass(frozen=True)
class _Run:
    """The second reading: it embeds the rows that the checkpoint lacks, and writes all of them."""

    source: TextSource
    checkpoint: Checkpoint
    options: EmbedOptions
    on_error: OnError
    client: EmbeddingClient | None  # None if the checkpoint has all rows
    shown: Any  # the display of the progress, or None
    report: list[dict[str, object]] = field(default_factory=list)

    def write(self, file: IO[bytes], suffix: str, schema: Any) -> int:
        """Write the output, and return the number of its rows."""
        pairs = self._pairs()
        # The first vector shows the width and the space; the rows before it have none.
        head: list[Pair] = []
        for pair in pairs:
            head.append(pair)
            if pair[1] is not None:
                break
        rejected = self.checkpoint.rejected
        if rejected and self.checkpoint.vector_space is None:
            reason = rejected[min(rejected)]["error"]
            raise FileError(f"{self.source.name}: no row can be embedded; the first {reason}.")
        table = Table(
            pairs=chain(head, pairs),
            width=self.checkpoint.width,
            dtype=self.checkpoint.dtype,
            vector_space=self.checkpoint.vector_space,
            schema=schema,
        )
        return WRITERS[suffix](file, table)

    def _pairs(self) -> Iterator[Pair]:
        rows = self.source.rows()
        vectors = (vector for block in self.checkpoint.read() for vector in block)
        rejected = dict(self.checkpoint.rejected)
        for row in islice(rows, self.checkpoint.rows):
            yield from self._pair(row, rejected.get(row.number - 1), vectors)
        if self.client is None:
            if next(rows, None) is not None:
                raise self.source.changed()
            return
        for embedded in embed_rows(self.client, rows, self.options):
            self._keep(embedded, self.client.vector_space)
            fresh = iter(embedded.vectors)
            for position, row in enumerate(embedded.rows):
                yield from self._pair(row, embedded.rejected.get(position), fresh)
            if self.shown is not None:
                self.shown.update(len(embedded.rows))

    def _pair(
        self, row: Row, rejected: Rejected | None, vectors: Iterator[npt.NDArray[Any]]
    ) -> Iterator[Pair]:
        if rejected is not None:
            self.report.append({"row": row.number, "line": row.line, **rejected})
            if self.on_error == "null":
                yield row.fields, None
            return
        vector = next(vectors, None)
        if vector is None:
            raise self.source.changed()
        yield row.fields, vector

    def _keep(self, embedded: "EmbeddedRows", vector_space: str | None) -> None:
        """Add rows to the checkpoint, unless the file has changed since the first reading."""
        self.source.check_unchanged()
        vectors, rejected = embedded.vectors, embedded.rejected
        if not rejected or self.on_error != "stop":
            self.checkpoint.append(vectors, vector_space=vector_space, rejected=rejected)
            return
        at = min(rejected)
        if at:
            self.checkpoint.append(vectors[:at], vector_space=vector_space)
        raise row_error(self.source.name, embedded.rows[at], rejected[at])


def embed_stream(
    client: EmbeddingClient,
    rows: Iterable[Row],
    *,
    name: str,
    options: EmbedOptions,
    on_error: str,
    as_line: AsLine,
) -> int:
    """Print each row with its vector; report those without one to standard error, and count them.

    A pipe may be slow or endless, so each group is written before the next one is read.
    """
    remaining, rejections = iter(rows), 0
    first_row = next(remaining, None)
    if first_row is None:
        raise nothing_in(name)
    remaining = chain([first_row], remaining)
    while group := list(islice(remaining, _GROUP)):
        for row in group:
            check_names(name, row, ".jsonl")
        for embedded in embed_rows(client, group, options):
            vectors = iter(embedded.vectors)
            for position, row in enumerate(embedded.rows):
                reason = embedded.rejected.get(position)
                if reason is not None:
                    if on_error == "stop":
                        sys.stdout.flush()
                        raise row_error(name, row, reason)
                    why = {"row": row.number, "line": row.line, **reason}
                    sys.stderr.write(json.dumps(why) + "\n")
                    rejections += 1
                if reason is None or on_error == "null":
                    vector = next(vectors) if reason is None else None
                    sys.stdout.write(as_line(row.fields, vector, client.vector_space).decode())
        sys.stdout.flush()
    return rejections


@dataclass(frozen=True, kw_only=True)
class EmbeddedRows:
    """Some rows in a sequence, their vectors, and those without one by their position."""

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

    for embedded in client.iter_parts(texts(), **options):
        yield _take(waiting, embedded)
    if waiting:
        rejected = {position: unreadable(row) for position, row in enumerate(waiting)}
        yield EmbeddedRows(rows=list(waiting), vectors=np.empty((0, 0)), rejected=rejected)


def _take(waiting: deque[Row], embedded: EmbeddedTexts) -> EmbeddedRows:
    """Remove the rows up to the last of some embedded texts."""
    rows: list[Row] = []
    rejected: dict[int, Rejected] = {}
    position = 0
    while position < embedded.count:
        row = waiting.popleft()
        if row.text is None:
            rejected[len(rows)] = unreadable(row)
        else:
            if position in embedded.refused:
                rejected[len(rows)] = _refused(embedded.refused[position])
            position += 1
        rows.append(row)
    return EmbeddedRows(rows=rows, vectors=embedded.vectors, rejected=rejected)


def _refused(error: RequestError) -> Rejected:
    """Return why the endpoint refused a row. The message continues after the row's position."""
    message, positions = _POSITION.subn("", _ADVICE.sub("", error.reason))
    message = message.rstrip(". ") if positions else f"was refused: {message.rstrip('. ')}"
    flag = _FLAGS.get(error.code or "")
    return {"error": f"{message}; {flag}" if flag else message, "code": error.code}


def unreadable(row: Row) -> Rejected:
    """Return why a row has no text."""
    return {"error": row.problem, "code": None}


def nothing_in(name: str, use: str = "embed") -> FileError:
    """Return the error of an input without a row."""
    return FileError(f"{name} is empty: there is nothing to {use}.")


def row_error(name: str, row: Row, rejected: Rejected) -> FileError:
    """Return the error that ends a run at a row."""
    return FileError(
        f"{name}: {row.place} {rejected['error']}. To continue without it, use --on-error skip or "
        "--on-error null."
    )


def check_names(name: str, row: Row, suffix: str) -> None:
    """Check that the output does not replace a field of a row."""
    for added in ADDED[suffix]:
        if added in row.fields:
            raise FileError(
                f"{name}: {row.place} already has a field {added!r}, which the {suffix} output "
                "adds. Rename or remove it in the input."
            )


def check_resumes(checkpoint: Checkpoint, job: Mapping[str, Any], *, name: str) -> None:
    """Check that a checkpoint holds vectors of the same job.

    `truncate` may change from `refuse` or none to `right` or `left`, so that a run can continue
    after a text that was too long. No vector in the checkpoint depends on it.
    """
    differences = list(_differences(checkpoint.job or {}, job, name))
    if differences:
        raise FileError(
            f"{checkpoint.path} holds {counted(checkpoint.rows, 'row')} of another run: "
            f"{'; '.join(differences)}. To continue that run, use its file and options. To start "
            f"again, delete {checkpoint.path}."
        )


def _differences(old: Mapping[str, Any], new: Mapping[str, Any], name: str) -> Iterator[str]:
    source, options = old.get("source", {}), old.get("options", {})
    if source.get("sha256") != new["source"]["sha256"]:
        yield f"the content of {name} has changed"
    changes = [(key, source.get(key), new["source"][key]) for key in ("format", "column")]
    keys = dict.fromkeys([*options, *new["options"]])
    changes += [(key, options.get(key), new["options"].get(key)) for key in keys]
    for key, before, after in changes:
        cuts = key == "truncate" and before in {None, "refuse"} and after in {"right", "left"}
        if before != after and not cuts:
            flag = key.replace("_", "-")
            yield f"--{flag} was {before or 'not given'} and is {after or 'not given'}"
