"""The command line of `embed`. It imports nothing that `--help` would have to wait for."""

import argparse
import os
from pathlib import Path
from typing import Any

from embedding_client.formats import FORMATS

__all__ = ["URL_VARIABLE", "embed_parser", "info_parser", "similar_parser"]

URL_VARIABLE = "EMBED_URL"
_EXAMPLES = f"""\
examples:
  embed "some text" "another"            one JSON line each, on standard output
  cat notes.txt | embed                  a text a line
  embed --file notes.csv --column body --output notes.parquet
                                         may be stopped and run again: it continues
  zcat big.jsonl.gz | embed --file - --format jsonl --output big.npy
  embed similar "parse a date"           search the index that the endpoint carries
  embed info https://...                 what the endpoint serves

The endpoint is --url, or the environment variable {URL_VARIABLE}. Credentials are found as the AWS
CLI finds them; for a URL on this machine they are AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or
local and local. To embed the word "info" or "similar" itself, put -- in front of it.

exit status:
  0  every row has its vector
  1  an error; standard error says which
  2  wrong usage
  3  done, but --on-error left rows without a vector
  130  stopped by Ctrl-C or SIGTERM
"""


def embed_parser() -> argparse.ArgumentParser:
    """Returns the parser of `embed`."""
    parser = argparse.ArgumentParser(
        prog="embed",
        description="Embed texts at a Function URL, with signed requests.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="texts; default: standard input")
    files = parser.add_argument_group("files")
    files.add_argument(
        "--file",
        type=Path,
        help="embed a text, JSON, JSONL, CSV, TSV or Parquet file; - is standard input",
    )
    files.add_argument(
        "--output",
        type=Path,
        help="a .jsonl, .parquet or .npy file to write; default: JSON lines on standard output",
    )
    files.add_argument("--column", default="text", help="the field with the text (default: text)")
    files.add_argument(
        "--format",
        choices=FORMATS,
        help="of the input; default: by the file's name, text for standard input",
    )
    files.add_argument("--overwrite", action="store_true", help="replace --output if it is there")
    files.add_argument(
        "--on-error",
        choices=("stop", "skip", "null"),
        default="stop",
        help="what to do with a row that cannot be embedded: stop there (the default), leave it "
        "out, or write it with null for a vector; OUTPUT.errors.jsonl lists the rows",
    )
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
        "--truncate",
        choices=("refuse", "right", "left"),
        help="for texts over the model's limit: refuse them, or cut off the right or the left",
    )
    _add_connection(parser)
    return parser


def info_parser() -> argparse.ArgumentParser:
    """Returns the parser of `embed info`."""
    parser = argparse.ArgumentParser(
        prog="embed info", description="Print what an endpoint serves."
    )
    parser.add_argument("endpoint", nargs="?", metavar="URL", help="default: as for embed")
    _add_connection(parser)
    return parser


def similar_parser() -> argparse.ArgumentParser:
    """Returns the parser of `embed similar`."""
    parser = argparse.ArgumentParser(
        prog="embed similar", description="Search the index that an endpoint carries."
    )
    parser.add_argument("text")
    parser.add_argument("-n", "--num-results", type=int, default=10, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="one JSON line for each match")
    _add_connection(parser)
    return parser


class _Version(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, **named: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **named)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"embed {version('embedding-kit')}")
        parser.exit()


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
