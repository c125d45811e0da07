"""`embed` with texts, a file or a pipe, `embed rerank`, `embed classify` and `embed info`."""

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy.typing as npt

from embedding_client._client import EmbeddingClient
from embedding_client._connect import connect_to, note_space
from embedding_client._file_embedding import embed_file, embed_stream, nothing_in
from embedding_client._outputs import AsLine, Outputs, json_line
from embedding_client._protocol import EmbedOptions, check_options
from embedding_client._readers import Row, TextSource, problem_of
from embedding_client.errors import ConfigurationError, FileError, counted, print_error
from embedding_client.rows import Fields

_INCOMPLETE = 3
#: The numbers of a vector that a terminal shows.
_SHOWN = 4
_INTERRUPTED = 130


def embed(args: argparse.Namespace) -> int:
    """Run `embed` with texts, a file or a pipe."""
    _check_input(args, "embed")
    options = EmbedOptions(
        prompt=args.prompt,
        input_type=args.input_type,
        dimensions=args.dimensions,
        dtype=args.dtype,
        truncate=args.truncate,
    )
    check_options(options)
    if args.output is not None:
        return _to_file(args, options)
    if args.texts:
        return _to_stdout(args, options, "TEXT", _rows(args.texts), column="text")
    with _source(args) as source:
        return _to_stdout(args, options, source.name, source.rows(), column=args.column)


def _check_input(args: argparse.Namespace, verb: str) -> None:
    """Refuse texts beside a file, and nothing; else standard input is the file."""
    if args.texts and (args.file is not None or args.output is not None or args.format):
        args.usage_error("give texts, or --file with --output and --format, not both")
    if not args.texts and args.file is None:
        if sys.stdin.isatty():
            args.usage_error(f"nothing to {verb}: give texts, --file, or a pipe")
        args.file = Path("-")


def _texts(args: argparse.Namespace, verb: str) -> Sequence[str]:
    with _source(args) as source:
        if texts := source.texts():
            return texts
        raise nothing_in(source.name, verb)


@contextmanager
def _connected(args: argparse.Namespace, space: str | None = None) -> Iterator[EmbeddingClient]:
    """Connect to the endpoint, and note its vector space in the end."""
    with connect_to(args, vector_space=space) as client:
        yield client
        note_space(args, client)


def _to_file(args: argparse.Namespace, options: EmbedOptions) -> int:
    try:
        with _source(args) as source:
            summary = embed_file(
                partial(_connected, args),
                source,
                args.output,
                options=options,
                overwrite=args.overwrite,
                on_error=args.on_error,
            )
    except KeyboardInterrupt:
        print_error("\nstopped; the same command continues from here")
        return _INTERRUPTED
    print_error(f"{args.output}: {counted(summary.rows, 'row')}")
    if summary.rejected:
        print_error(f"{counted(summary.rejected, 'row')} without a vector: {summary.report}")
    return _INCOMPLETE if summary.rejected else 0


def _to_stdout(
    args: argparse.Namespace, options: EmbedOptions, name: str, rows: Iterator[Row], *, column: str
) -> int:
    short = sys.stdout.isatty() and not args.json
    as_line: AsLine = partial(_summary, column) if short else json_line
    with _connected(args) as client:
        rejected = embed_stream(
            client, rows, name=name, options=options, on_error=args.on_error, as_line=as_line
        )
    if rejected:
        print_error(f"{counted(rejected, 'row')} without a vector")
    return _INCOMPLETE if rejected else 0


def _summary(column: str, row: Fields, vector: npt.NDArray[Any] | None, space: str | None) -> bytes:
    """Return what a reader wants to see of a vector: its length, first numbers, and space."""
    if vector is None:
        shown = "no vector"
    else:
        numbers = " ".join(f"{value:.4g}" for value in vector[:_SHOWN])
        shown = f"{len(vector)} dimensions: {numbers} ...\n  vector space: {space}"
    return f"{row.get(column, '')}\n  {shown}\n".encode()


@contextmanager
def _source(args: argparse.Namespace) -> Iterator[TextSource]:
    """Open the input. A pipe that must be read more than once is copied to a temporary file."""
    standard = args.file == Path("-")
    file_format = args.format or ("text" if standard else None)
    if not standard and not args.file.is_fifo():
        yield TextSource(args.file, kind=file_format, column=args.column)
        return
    piped = TextSource(None, kind=file_format, column=args.column)
    if standard and args.output is None and file_format != "parquet":
        yield piped
        return
    if standard and args.output is not None:
        Outputs(args.output).check(piped, overwrite=args.overwrite)
    name = piped.name if standard else str(args.file)
    file_format = file_format or "text"
    with tempfile.NamedTemporaryFile(prefix="embed-") as copy:
        try:
            with open(0 if standard else args.file, "rb", closefd=not standard) as pipe:
                shutil.copyfileobj(pipe, copy)
            copy.flush()
        except OSError as error:
            raise FileError(f"{name} cannot be copied to {copy.name}: {error.strerror}.") from error
        yield TextSource(Path(copy.name), kind=file_format, column=args.column, name=name)


def _rows(texts: Sequence[str]) -> Iterator[Row]:
    for number, text in enumerate(texts, 1):
        fields = {"text": text}
        problem = problem_of(fields, "text")
        yield Row(
            number=number, line=None, fields=fields, text=None if problem else text, problem=problem
        )


def rerank(args: argparse.Namespace) -> int:
    """Run `embed rerank`: print the texts of a file with their scores, the best first."""
    passages = _texts(args, "rank")
    with _connected(args) as client:
        ranked = client.rerank(args.query, passages, top_k=args.top, truncate=not args.refuse_long)
    for passage in ranked:
        if args.json:
            print(json.dumps(asdict(passage), ensure_ascii=False))
        else:
            print(f"{passage.score:.4f}  {' '.join(passage.passage.split())}")
    return 0


def classify(args: argparse.Namespace) -> int:
    """Run `embed classify`: print each text with its best label, or as JSON with all labels."""
    _check_input(args, "label")
    texts = args.texts or _texts(args, "label")
    with _connected(args) as client:
        classified = client.classify(texts, truncate=args.truncate)
    for text, labels in zip(texts, classified, strict=True):
        if args.json:
            print(json.dumps({"text": text, **asdict(labels)}, ensure_ascii=False))
        else:
            print(f"{labels.score:.4f}  {labels.label}  {' '.join(text.split())}")
    return 0


def show_info(args: argparse.Namespace) -> int:
    """Run `embed info`."""
    if args.endpoint and args.function:
        raise ConfigurationError("Give a URL or --function, not both.")
    args.url = args.endpoint or args.url
    with connect_to(args) as client:
        print(json.dumps({**client.health(), **client.info()}, indent=2, ensure_ascii=False))
    return 0
