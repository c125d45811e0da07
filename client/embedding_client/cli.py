"""The command `embed`."""

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import numpy as np

from embedding_client.client import EmbeddingClient
from embedding_client.errors import ConfigurationError, EmbeddingClientError
from embedding_client.jobs import embed_file
from embedding_client.outputs import numbers
from embedding_client.protocol import EmbedOptions
from embedding_client.signing import SigV4Auth
from embedding_client.sources import FORMATS, Source

__all__ = ["main"]

URL_VARIABLE = "EMBED_URL"
_EXAMPLES = f"""\
examples:
  embed "some text" "another"            one JSON line each, on standard output
  cat notes.txt | embed                  a text a line
  embed --file notes.csv --column body --output notes.parquet
                                         may be stopped and run again: it goes on where it was
  embed similar "parse a date"           search the index that the endpoint carries
  embed info https://...                 what the endpoint serves

The endpoint is --url, or the environment variable {URL_VARIABLE}. Credentials are found as the AWS
CLI finds them; for a URL on this machine they are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or
local and local. To embed the word "info" or "similar" itself, put -- in front of it.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command.

    Returns:
        0; 1 after an error told on standard error; 2 for wrong usage; 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    commands = {"info": _info, "similar": _similar}
    run, rest = (
        (commands[given[0]], given[1:]) if given[:1] and given[0] in commands else (_embed, given)
    )
    previous = signal.signal(signal.SIGTERM, _interrupt)
    try:
        return run(rest)
    except EmbeddingClientError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped\n")
        return 130
    except BrokenPipeError:  # `embed ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    finally:
        signal.signal(signal.SIGTERM, previous)


def _embed(arguments: Sequence[str]) -> int:
    parser = _embed_parser()
    args = parser.parse_args(arguments)
    options = EmbedOptions(
        prompt=args.prompt,
        input_type=args.input_type,
        dimension=args.dimension,
        dtype=args.dtype,
        truncate=args.truncate,
    )
    if args.file is None:
        if args.output is not None:
            parser.error("--output goes with --file; texts are written to standard output")
        _embed_texts(args, parser, options)
        return 0
    if args.texts or args.output is None:
        parser.error("--file goes with --output, and without texts")
    source = Source(args.file, kind=args.format, column=args.column)
    try:
        count = embed_file(
            lambda space: _connect(args, vector_space=space),
            source,
            args.output,
            options=options,
            overwrite=args.overwrite,
        )
    except KeyboardInterrupt:
        sys.stderr.write("\nstopped; the same command goes on from here\n")
        return 130
    sys.stderr.write(f"{args.output}: {count} rows\n")
    return 0


def _embed_texts(
    args: argparse.Namespace, parser: argparse.ArgumentParser, options: EmbedOptions
) -> None:
    texts: Iterable[str] = args.texts
    if not args.texts:
        if sys.stdin.isatty():
            parser.error("nothing to embed: give texts, --file, or a pipe")
        texts = (line.rstrip("\r\n") for line in sys.stdin if line.strip())
    with _connect(args) as client:
        pending = iter(texts)
        # A pipe may be slow or endless: each group is answered before the next one is read.
        while group := list(islice(pending, 64)):
            vectors = client.embed(group, **asdict(options))
            for text, vector in zip(group, vectors, strict=True):
                row = {
                    "text": text,
                    "embedding": numbers(np.asarray(vector)),
                    "vector_space": client.vector_space,
                }
                print(json.dumps(row, ensure_ascii=False))
            sys.stdout.flush()


def _info(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="embed info", description="Tell what an endpoint serves.")
    parser.add_argument("endpoint", nargs="?", metavar="URL", help="default: as for embed")
    _add_connection(parser)
    args = parser.parse_args(arguments)
    args.url = args.endpoint or args.url
    with _connect(args) as client:
        print(json.dumps({**client.health(), **client.info()}, indent=2, ensure_ascii=False))
    return 0


def _similar(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="embed similar", description="Search the index that an endpoint carries."
    )
    parser.add_argument("text")
    parser.add_argument("-n", "--num-results", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="one JSON line for each match")
    _add_connection(parser)
    args = parser.parse_args(arguments)
    with _connect(args) as client:
        for match in client.similar(args.text, num_results=args.num_results):
            if args.json:
                print(json.dumps(asdict(match), ensure_ascii=False))
            else:
                print(f"{match.score:.4f}  {' '.join(match.text.split())}")
    return 0


def _embed_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="embed",
        description="Embed texts at a Function URL, with signed requests.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "texts", nargs="*", metavar="TEXT", help="texts; standard input without any"
    )
    files = parser.add_argument_group("files")
    files.add_argument("--file", type=Path, help="embed a text, JSONL, CSV, TSV or Parquet file")
    files.add_argument("--output", type=Path, help="a .jsonl, .parquet or .npy file to write")
    files.add_argument("--column", default="text", help="where the text stands (default: text)")
    files.add_argument("--format", choices=FORMATS, help="of --file; default: by its name")
    files.add_argument("--overwrite", action="store_true", help="replace --output if it is there")
    how = parser.add_argument_group("how to embed")
    how.add_argument("--prompt", help="the name of one of the model's prompts")
    how.add_argument("--input-type", help="query or document: chooses the prompt, if there is one")
    how.add_argument("--dimension", type=int, help="one of the model's sizes")
    how.add_argument(
        "--dtype",
        choices=("float32", "int8", "uint8", "binary", "ubinary"),
        default="float32",
        help="default: %(default)s",
    )
    how.add_argument(
        "--truncate", choices=("refuse", "right", "left"), help="for texts over the model's limit"
    )
    _add_connection(parser)
    return parser


def _add_connection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the endpoint")
    group.add_argument(
        "--url", default=os.environ.get(URL_VARIABLE), help=f"default: ${URL_VARIABLE}"
    )
    group.add_argument("--profile", help="of the AWS configuration; default: $AWS_PROFILE")
    group.add_argument("--region", help="default: the one in the URL")
    group.add_argument(
        "--concurrency", type=int, default=4, help="requests at once (default: %(default)s)"
    )


def _connect(args: argparse.Namespace, *, vector_space: str | None = None) -> EmbeddingClient:
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


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
