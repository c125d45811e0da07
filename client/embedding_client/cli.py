"""The command `embed`.

What takes time to import is imported where it is used, so that `--help` is fast.
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

from embedding_client.arguments import URL_VARIABLE, embed_parser, info_parser, similar_parser
from embedding_client.errors import ConfigurationError, EmbeddingClientError, FileError

if TYPE_CHECKING:
    from embedding_client.client import EmbeddingClient
    from embedding_client.protocol import EmbedOptions
    from embedding_client.sources import Row, Source

__all__ = ["main", "run"]

_INCOMPLETE = 3
_INTERRUPTED = 130


def main() -> NoReturn:
    """Runs the command of this process and ends the process at once.

    An ordinary end would wait for the threads whose requests have not been answered yet.
    """
    try:
        code = run(sys.argv[1:])
    except SystemExit as ended:  # --help, --version, wrong usage
        code = ended.code if isinstance(ended.code, int) else 1
        try:
            sys.stdout.flush()
        except OSError:
            code = code or 1
    with suppress(OSError):
        sys.stderr.flush()
    os._exit(code)


def run(arguments: Sequence[str]) -> int:
    """Runs the command.

    Returns:
        0; 1 after an error, which is on standard error; 3 if rows have no vector; 130 after Ctrl-C.

    Raises:
        SystemExit: after --help, --version, and with 2 for wrong usage.
    """
    given = list(arguments)
    commands = {"info": _info, "similar": _similar}
    command, rest = (
        (commands[given[0]], given[1:]) if given[:1] and given[0] in commands else (_embed, given)
    )
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        code = command(rest)
        sys.stdout.flush()
    except EmbeddingClientError as error:
        _say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        _say("\nstopped")
        return _INTERRUPTED
    except BrokenPipeError:  # `embed ... | head`
        return 1
    except OSError as error:
        _say(f"error: standard output cannot be written: {error.strerror or error}.")
        return 1
    else:
        return code
    finally:
        signal.signal(signal.SIGTERM, previous)


def _embed(arguments: Sequence[str]) -> int:
    parser = embed_parser()
    args = parser.parse_args(arguments)
    if args.texts and (args.file is not None or args.output is not None or args.format):
        parser.error("give texts, or --file with --output and --format, not both")
    if not args.texts and args.file is None:
        if sys.stdin.isatty():
            parser.error("nothing to embed: give texts, --file, or a pipe")
        args.file = Path("-")

    from embedding_client.protocol import EmbedOptions  # noqa: PLC0415

    options = EmbedOptions(
        prompt=args.prompt,
        input_type=args.input_type,
        dimension=args.dimension,
        dtype=args.dtype,
        truncate=args.truncate,
    )
    if args.output is not None:
        return _to_file(args, options)
    if args.texts:
        return _to_stdout(args, options, "TEXT", _given(args.texts))
    with _source(args) as source:
        return _to_stdout(args, options, source.name, source.rows())


def _to_file(args: argparse.Namespace, options: "EmbedOptions") -> int:
    from embedding_client.jobs import embed_file  # noqa: PLC0415

    try:
        with _source(args) as source:
            done = embed_file(
                lambda space: _connect(args, vector_space=space),
                source,
                args.output,
                options=options,
                overwrite=args.overwrite,
                on_error=args.on_error,
            )
    except KeyboardInterrupt:
        _say("\nstopped; the same command continues from here")
        return _INTERRUPTED
    _say(f"{args.output}: {done.rows} rows")
    if done.rejected:
        _say(f"{done.rejected} rows have no vector; {done.report} lists them")
    return _INCOMPLETE if done.rejected else 0


def _to_stdout(
    args: argparse.Namespace, options: "EmbedOptions", name: str, rows: Iterator["Row"]
) -> int:
    from embedding_client.streaming import embed_stream  # noqa: PLC0415

    with _connect(args) as client:
        rejected = embed_stream(
            client,
            rows,
            name=name,
            options=options,
            on_error=args.on_error,
            output=sys.stdout,
            report=sys.stderr,
        )
    if rejected:
        _say(f"{rejected} rows have no vector")
    return _INCOMPLETE if rejected else 0


@contextmanager
def _source(args: argparse.Namespace) -> Iterator["Source"]:
    """Opens the input. A pipe that must be read more than once is copied to a temporary file."""
    from embedding_client.outputs import Outputs  # noqa: PLC0415
    from embedding_client.sources import Source  # noqa: PLC0415

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


def _given(texts: Sequence[str]) -> Iterator["Row"]:
    from embedding_client.readers import problem_of  # noqa: PLC0415
    from embedding_client.sources import Row  # noqa: PLC0415

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


def _info(arguments: Sequence[str]) -> int:
    import json  # noqa: PLC0415

    args = info_parser().parse_args(arguments)
    args.url = args.endpoint or args.url
    with _connect(args) as client:
        print(json.dumps({**client.health(), **client.info()}, indent=2, ensure_ascii=False))
    return 0


def _similar(arguments: Sequence[str]) -> int:
    import json  # noqa: PLC0415
    from dataclasses import asdict  # noqa: PLC0415

    args = similar_parser().parse_args(arguments)
    with _connect(args) as client:
        for match in client.similar(args.text, num_results=args.num_results):
            if args.json:
                print(json.dumps(asdict(match), ensure_ascii=False))
            else:
                print(f"{match.score:.4f}  {' '.join(match.text.split())}")
    return 0


def _connect(args: argparse.Namespace, *, vector_space: str | None = None) -> "EmbeddingClient":
    from urllib.parse import urlsplit  # noqa: PLC0415

    from embedding_client.client import EmbeddingClient  # noqa: PLC0415
    from embedding_client.signing import SigV4Auth  # noqa: PLC0415

    if not args.url:
        raise ConfigurationError(f"No endpoint: give --url, or set {URL_VARIABLE}.")
    if args.concurrency < 1:
        raise ConfigurationError(f"--concurrency must be 1 or more; found {args.concurrency}.")
    auth = SigV4Auth(
        profile=args.profile, region=args.region, hosts=[urlsplit(args.url).hostname or ""]
    )
    return EmbeddingClient(
        args.url, auth=auth, concurrency=args.concurrency, vector_space=vector_space
    )


def _say(text: str) -> None:
    """Writes a line on standard error, if that is possible."""
    with suppress(OSError):
        sys.stderr.write(text + "\n")
        sys.stderr.flush()


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
