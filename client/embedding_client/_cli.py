"""The command `embed`.

Modules that are slow to import are imported where they are used, so that `--help` is fast.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from embedding_client._arguments import parse_arguments
from embedding_client._connect import connect_to, note_space
from embedding_client._errors import (
    ConfigurationError,
    CredentialsError,
    EmbeddingClientError,
    FileError,
    ResponseError,
)

if TYPE_CHECKING:
    from embedding_client._client import EmbeddingClient
    from embedding_client._protocol import EmbedOptions
    from embedding_client._readers import Row, Source

__all__ = ["main", "run"]

_INVALID = 2
_INCOMPLETE = 3
_INTERRUPTED = 130
#: The option for a field of the API.
_OPTIONS = {
    "size": "--dimensions",
    "prompt_name": "--prompt",
    "input_type": "--input-type",
    "num_results": "--top",
    "filter": "--filter",
}


def main() -> NoReturn:
    """Run the command and end the process at once.

    A normal exit would wait for threads with unfinished requests.
    """
    try:
        code = run(sys.argv[1:])
    except SystemExit as ended:  # --help, --version, invalid arguments
        code = ended.code if isinstance(ended.code, int) else 1
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run the command.

    Returns:
        The exit status: 0; 1 after an error, which is printed to standard error, or if the doctor
        finds something ill; 2 for invalid arguments; 3 if rows have no vector; 130 after Ctrl-C.

    Raises:
        SystemExit: After --help and --version, and for arguments that cannot be parsed.
    """
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        args = _parse(arguments)
        commands = {"embed": _embed, "info": _info, "batch": _batch, "index": _index}
        commands |= {"search": _search, "doctor": _doctor, "load": _load}
        code = commands[args.command](args)
        sys.stdout.flush()
    except EmbeddingClientError as error:
        _print_error(f"error: {_in_options(error)}")
        is_argument = isinstance(error, ConfigurationError)
        return _INVALID if is_argument and not isinstance(error, CredentialsError) else 1
    except KeyboardInterrupt:
        _print_error("\nstopped")
        return _INTERRUPTED
    except BrokenPipeError:  # `embed ... | head`
        return 1
    except OSError as error:
        _print_error(f"error: standard output cannot be written: {error.strerror or error}.")
        return 1
    else:
        return code
    finally:
        signal.signal(signal.SIGTERM, previous)


def _in_options(error: EmbeddingClientError) -> str:
    """Return an error's message with the options of the command for the fields of a request."""
    message = str(error)
    if isinstance(error, ResponseError):
        option = _OPTIONS.get(error.field or "")
        if option:
            message = message.replace(f'"{error.field}"', option, 1)
        if error.status == 401:
            message += " To send a key, use --api-key-env."
    return message


def _parse(arguments: Sequence[str]) -> argparse.Namespace:
    try:
        return parse_arguments(arguments)
    except SystemExit:
        sys.stdout.flush()  # here, where an error of standard output is reported
        raise


def _embed(args: argparse.Namespace) -> int:
    if args.texts and (args.file is not None or args.output is not None or args.format):
        args.usage_error("give texts, or --file with --output and --format, not both")
    if not args.texts and args.file is None:
        if sys.stdin.isatty():
            args.usage_error("nothing to embed: give texts, --file, or a pipe")
        args.file = Path("-")

    from embedding_client._protocol import EmbedOptions, check_options  # noqa: PLC0415  (slow)

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
        return _to_stdout(args, options, "TEXT", _rows(args.texts))
    with _source(args) as source:
        return _to_stdout(args, options, source.name, source.rows())


def _to_file(args: argparse.Namespace, options: "EmbedOptions") -> int:
    from embedding_client._file_embedding import embed_file  # noqa: PLC0415  (slow)

    used: list[EmbeddingClient] = []

    def connect(space: str | None) -> "EmbeddingClient":
        used.append(connect_to(args, vector_space=space))
        return used[-1]

    try:
        with _source(args) as source:
            summary = embed_file(
                connect,
                source,
                args.output,
                options=options,
                overwrite=args.overwrite,
                on_error=args.on_error,
            )
    except KeyboardInterrupt:
        _print_error("\nstopped; the same command continues from here")
        return _INTERRUPTED
    for client in used:
        note_space(args, client)
    _print_error(f"{args.output}: {summary.rows} rows")
    if summary.rejected:
        _print_error(f"{summary.rejected} rows have no vector; {summary.report} lists them")
    return _INCOMPLETE if summary.rejected else 0


def _to_stdout(
    args: argparse.Namespace, options: "EmbedOptions", name: str, rows: Iterator["Row"]
) -> int:
    from embedding_client._file_embedding import embed_stream  # noqa: PLC0415  (slow)

    with connect_to(args) as client:
        rejected = embed_stream(
            client,
            rows,
            name=name,
            options=options,
            on_error=args.on_error,
            output=sys.stdout,
            report=sys.stderr,
        )
        note_space(args, client)
    if rejected:
        _print_error(f"{rejected} rows have no vector")
    return _INCOMPLETE if rejected else 0


@contextmanager
def _source(args: argparse.Namespace) -> Iterator["Source"]:
    """Open the input. A pipe that must be read more than once is copied to a temporary file."""
    from embedding_client._readers import Source  # noqa: PLC0415  (slow)
    from embedding_client._writers import Outputs  # noqa: PLC0415  (slow)

    standard = args.file == Path("-")
    kind = args.format or ("text" if standard else None)
    if not standard and not args.file.is_fifo():
        yield Source(args.file, kind=kind, column=args.column)
        return
    piped = Source(None, kind=kind, column=args.column)
    if standard and args.output is None and kind != "parquet":
        yield piped
        return
    if standard and args.output is not None:
        Outputs(args.output).check(piped, overwrite=args.overwrite)
    name = piped.name if standard else str(args.file)
    kind = kind or "text"
    with tempfile.NamedTemporaryFile(prefix="embed-") as copy:
        try:
            with open(0 if standard else args.file, "rb", closefd=not standard) as pipe:
                shutil.copyfileobj(pipe, copy)
            copy.flush()
        except OSError as error:
            raise FileError(f"{name} cannot be copied to {copy.name}: {error.strerror}.") from error
        yield Source(Path(copy.name), kind=kind, column=args.column, name=name)


def _rows(texts: Sequence[str]) -> Iterator["Row"]:
    from embedding_client._readers import Row, problem_of  # noqa: PLC0415  (slow)

    for number, text in enumerate(texts, 1):
        fields = {"text": text}
        problem = problem_of(fields, "text")
        yield Row(
            number=number,
            line=None,
            fields=fields,
            text=None if problem else text,
            problem=problem,
        )


def _info(args: argparse.Namespace) -> int:
    import json  # noqa: PLC0415  (slow)

    if args.endpoint and args.function:
        raise ConfigurationError("Give a URL or --function, not both.")
    args.url = args.endpoint or args.url
    with connect_to(args) as client:
        print(json.dumps({**client.health(), **client.info()}, indent=2, ensure_ascii=False))
    return 0


def _search(args: argparse.Namespace) -> int:
    from embedding_client._index_command import run_search  # noqa: PLC0415  (slow)

    return run_search(args, lambda space: connect_to(args, vector_space=space))


def _batch(args: argparse.Namespace) -> int:
    from embedding_client._batch_command import run_batch  # noqa: PLC0415  (slow)

    return run_batch(args)


def _index(args: argparse.Namespace) -> int:
    from embedding_client._index_command import run_index  # noqa: PLC0415  (slow)

    return run_index(args)


def _doctor(args: argparse.Namespace) -> int:
    from embedding_client._doctor.command import run_doctor  # noqa: PLC0415  (slow)

    return run_doctor(args)


def _load(args: argparse.Namespace) -> int:
    try:
        from embedding_client._load.command import run_load  # noqa: PLC0415  (slow)
    except ModuleNotFoundError as error:
        if error.name != "aiohttp":
            raise
        raise ConfigurationError(
            "embed load needs: pip install 'embedding-client[load]'."
        ) from error

    return run_load(args)


def _print_error(text: str) -> None:
    """Print a line to standard error, if it can be written."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
