"""The arguments of `embed`. This module imports only what `--help` needs."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedding_client.batch.arguments import add_batch
from embedding_client.doctor_arguments import add_doctor
from embedding_client.formats import FORMATS
from embedding_client.index.arguments import add_index
from embedding_client.load_test.arguments import add_load
from embedding_client.shared_arguments import URL_VARIABLE, add_credentials, whole

__all__ = ["parse_arguments"]

_EXAMPLES = f"""\
examples:
  embed "some text" "another"            print a JSON line for each text
  cat notes.txt | embed                  embed each line
  embed --file notes.csv --column body --output notes.parquet
                                         embed a file; run it again to resume
  zcat big.jsonl.gz | embed --file - --format jsonl --output big.npy
  embed search "parse a date" --top 5    search the endpoint's index
  embed info https://...                 print the endpoint's description
  embed batch --help                     embed whole folders, on AWS or on this machine
  embed index --help                     load an index of S3 Vectors, and look into it
  embed doctor --environment production  check a deployed endpoint, print what to do
  embed load --help                      test an endpoint under load

The endpoint is --url or --function, or the environment variable {URL_VARIABLE}. Credentials come
from the same sources as for the AWS CLI. For a URL on this machine they are AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, or local and local. To embed the word "info", "search", "batch", "index",
"doctor" or "load", put -- before it.

exit status:
  0  every row has a vector
  1  an error, printed to standard error
  2  invalid arguments
  3  complete, but --on-error left rows without a vector
  130  stopped by Ctrl-C or SIGTERM
"""
# The subcommand of a command line that names none. It is not a word of the command line itself.
_DEFAULT = "embed"


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line.

    Returns:
        The arguments. `command` is `embed`, `info`, `search`, `batch`, `index`, `doctor`
        or `load`; for `embed`, `usage_error` is the function that exits with a message.

    Raises:
        SystemExit: After --help and --version, and with status 2 for invalid arguments.
    """
    parser = _Parser(prog="embed")
    commands = parser.add_subparsers(dest="command")
    _add_embed(commands)
    _add_info(commands)
    _add_search(commands)
    add_batch(commands)
    add_index(commands)
    add_doctor(commands, url_variable=URL_VARIABLE)
    add_load(commands, url_variable=URL_VARIABLE)
    named = arguments[:1] and arguments[0] in commands.choices.keys() - {_DEFAULT}
    return parser.parse_args(arguments if named else [_DEFAULT, *arguments])


def _add_embed(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = commands.add_parser(
        _DEFAULT,
        prog="embed",
        description="Embed texts at a Function URL with signed requests.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, help="print the version and exit")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="texts; default: standard input")
    files = parser.add_argument_group("files")
    files.add_argument(
        "--file",
        type=Path,
        help="a text, JSON, JSONL, CSV, TSV or Parquet file to embed; - is standard input",
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
        help="the format of the input; default: from the file name, text for standard input",
    )
    files.add_argument("--overwrite", action="store_true", help="replace --output if it exists")
    files.add_argument(
        "--on-error",
        choices=("stop", "skip", "null"),
        default="stop",
        help="how to handle a row that cannot be embedded: stop (the default), skip it, or write "
        "it with null as the vector; OUTPUT.errors.jsonl lists these rows",
    )
    options = parser.add_argument_group("embedding options")
    options.add_argument("--prompt", help="the name of one of the model's prompts")
    options.add_argument("--input-type", help="query or document; selects the model's prompt")
    options.add_argument(
        "--dimensions", type=whole(1, 1_000_000), help="one of the vector lengths of the model"
    )
    options.add_argument(
        "--dtype",
        choices=("float32", "int8", "uint8", "binary", "ubinary"),
        default="float32",
        help="default: %(default)s",
    )
    options.add_argument(
        "--truncate",
        choices=("refuse", "right", "left"),
        help="how to handle texts over the model's limit: refuse them, or cut off the right or "
        "the left end",
    )
    _add_connection(parser)
    parser.set_defaults(usage_error=parser.error)


def _add_info(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = commands.add_parser("info", description="Print the description of an endpoint.")
    parser.add_argument("endpoint", nargs="?", metavar="URL", help="default: --url")
    _add_connection(parser)


def _add_search(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = commands.add_parser(
        "search",
        description="Search the index of an endpoint, or an index of S3 Vectors directly.",
        epilog="With INDEX, the endpoint only embeds the text, and your own credentials query the "
        "index; they need s3vectors:QueryVectors, GetVectors and ListTagsForResource.",
    )
    parser.add_argument("index", nargs="?", metavar="INDEX", help="the ARN of an index")
    parser.add_argument("text", metavar="TEXT", help="the text to search for")
    parser.add_argument("--top", type=whole(1, 10_000), default=10, help="default: %(default)s")
    parser.add_argument(
        "--filter",
        metavar="JSON",
        help="""which metadata a match must have, such as '{"year": {"$gte": 2020}}'""",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON line for each match")
    _add_connection(parser)


class _Parser(argparse.ArgumentParser):
    def print_help(self, file: Any = None) -> None:
        # The method of the base class ignores errors of the file.
        (file or sys.stdout).write(self.format_help())


class _Version(argparse.Action):
    def __init__(self, option_strings: list[str], dest: str, **named: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, **named)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415  (only for --version)

        print(f"embed {version('embedding-client')}")
        parser.exit()


def _add_connection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("endpoint")
    places = group.add_mutually_exclusive_group()
    places.add_argument(
        "--url", default=os.environ.get(URL_VARIABLE), help=f"default: ${URL_VARIABLE}"
    )
    places.add_argument(
        "--function",
        metavar="NAME:ALIAS",
        help="call a function by Lambda's Invoke instead of a URL, such as embedder:live, or the "
        "ARN of an alias",
    )
    group.add_argument(
        "--endpoint-url",
        metavar="URL",
        help="with --function: the URL of Lambda's API, such as an interface endpoint's own",
    )
    add_credentials(group)
    group.add_argument(
        "--concurrency",
        type=whole(1, 1000),
        default=4,
        help="concurrent requests (default: %(default)s)",
    )
