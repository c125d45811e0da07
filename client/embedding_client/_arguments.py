"""The arguments of `embed`. This module imports only what `--help` needs."""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from embedding_client._job_arguments import add_batch, add_index, add_ingest
from embedding_client._shared_arguments import (
    FORMATS,
    URL_VARIABLE,
    add_command,
    add_credentials,
    between,
    whole,
)

_EXAMPLES = f"""\
examples:
  embed "some text"                  print dimensions, first numbers, space
  cat notes.txt | embed              print each line with its vector as JSON
  embed --file notes.csv --column body --output notes.parquet
                                     embed a file; run it again to resume
  zcat big.jsonl.gz | embed --file - --format jsonl --output big.npy
  embed search "parse a date"        search the endpoint's index

The endpoint is --url or --function, or the environment variable
{URL_VARIABLE}. Credentials come from the same sources as for the AWS CLI.
For a URL on this machine they are AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, or local and local. To embed the name of a command,
put -- before it.

exit status:
  0  every row has a vector
  1  an error, printed to standard error
  2  invalid arguments
  3  complete, but --on-error left rows without a vector
  130  stopped by Ctrl-C or SIGTERM
"""


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line; `run` of the result runs the command."""
    parser, default, commands = parsers()
    if "_ARGCOMPLETE" in os.environ:
        _complete(parser, default)
    first = arguments[0] if arguments else ""
    if first in commands:
        return parser.parse_args(arguments)
    _refuse_mistyped(default, first, commands)
    return default.parse_args(arguments)


def parsers() -> tuple[
    argparse.ArgumentParser, argparse.ArgumentParser, Mapping[str, argparse.ArgumentParser]
]:
    """Return the parser of all, that of no command, and those of the commands by name."""
    parser = _Parser(prog="embed")
    commands = parser.add_subparsers(dest="command")
    _add_info(commands)
    _add_models(commands)
    _add_search(commands)
    _add_rerank(commands)
    _add_chunk(commands)
    _add_compare(commands)
    _add_mcp(commands)
    add_batch(commands)
    add_index(commands)
    add_ingest(commands)
    _add_doctor(commands)
    _add_load(commands)
    # Among parsers of its own, as it is not one of the commands to list.
    default = _add_embed(_Parser().add_subparsers())
    listed = (f"  {name:<8}{command.description}" for name, command in commands.choices.items())
    heading = "commands, each with its own --help:"
    default.epilog = "\n".join([heading, *listed, "", _EXAMPLES])
    return parser, default, commands.choices


def _complete(parser: argparse.ArgumentParser, default: argparse.ArgumentParser) -> None:
    """Print what completes the command line, in a shell that asks for it, and exit."""
    import argcomplete  # noqa: PLC0415  (only for a completion)

    words = os.environ.get("COMP_LINE", "").split()
    argcomplete.autocomplete(default if words[1:2] and words[1].startswith("-") else parser)


def _refuse_mistyped(parser: argparse.ArgumentParser, word: str, commands: Iterable[str]) -> None:
    """Exit with the command that a first word is close to: it would be embedded, and billed."""
    if not word.isalpha():
        return
    from difflib import get_close_matches  # noqa: PLC0415  (only for a word that is no command)

    if near := get_close_matches(word, commands, n=1, cutoff=0.75):
        parser.error(
            f'"{word}" is not a command; did you mean "{near[0]}"? To embed the word, put -- '
            "before it"
        )


def _add_embed(commands: Any) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "embed",
        "Embed texts at a Function URL with signed requests.",
        run="_embed_command.embed",
        examples=_EXAMPLES,
        prog="embed",
        usage="embed [options] [TEXT ...]\n       embed COMMAND ...",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="texts; default: standard input")
    parser.add_argument(
        "--json", action="store_true", help="print whole vectors, as a terminal does not by default"
    )
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
    _add_reading(files)
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
    return parser


def _add_info(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = add_command(
        commands, "info", "Print the description of an endpoint.", run="_embed_command.show_info"
    )
    parser.add_argument("endpoint", nargs="?", metavar="URL", help="default: --url")
    _add_connection(parser)


def _add_models(commands: Any) -> None:
    parser = add_command(
        commands,
        "models",
        "List the models of the catalog, with size, memory, speed and quality.",
        run="_models.run_models",
    )
    parser.add_argument(
        "--language",
        metavar="NAME",
        help="such as korean: its models, and those of many languages; their cards list them",
    )
    parser.add_argument(
        "--memory", type=whole(128, 10_240), metavar="MB", help="that fit this memory_mb"
    )
    parser.add_argument(
        "--tokens", type=whole(1, 1_000_000), metavar="N", help="that take texts of N tokens"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, with all facts")


def _add_search(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = add_command(
        commands,
        "search",
        "Search the index of an endpoint, or an index of S3 Vectors directly.",
        run="_index.search",
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
    parser.add_argument(
        "--mode",
        choices=["dense", "sparse", "hybrid"],
        help="the kind of vectors; hybrid: both, fused by their ranks",
    )
    parser.add_argument(
        "--candidates",
        type=whole(1, 10_000),
        metavar="N",
        help="that each search finds, to be fused and reranked (default: 50)",
    )
    parser.add_argument(
        "--rerank",
        action=argparse.BooleanOptionalAction,
        help="whether the endpoint's reranker orders them (default: if there is one, with one of "
        "these three options)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON line for each match")
    _add_connection(parser)


def _add_rerank(commands: "argparse._SubParsersAction[_Parser]") -> None:
    parser = add_command(
        commands,
        "rerank",
        "Rank the texts of a file for a query, by the endpoint's reranker.",
        run="_embed_command.rerank",
    )
    parser.add_argument("query", metavar="QUERY", help="what is searched for")
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a text, JSON, JSONL, CSV, TSV or Parquet file; - is standard input",
    )
    _add_reading(parser)
    parser.add_argument(
        "--top", type=whole(1, 1_000_000), metavar="N", help="print the best N; default: all"
    )
    parser.add_argument(
        "--refuse-long", action="store_true", help="refuse texts over the limit; default: cut them"
    )
    parser.add_argument("--json", action="store_true", help="print a JSON line for each text")
    parser.set_defaults(output=None)
    _add_connection(parser)


def _add_chunk(commands: Any) -> None:
    parser = add_command(
        commands,
        "chunk",
        "Show the chunks that [ingest] makes of a document; embeds nothing.",
        run="_embed_command.chunk",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a .txt, .md or .html file")
    parser.add_argument(
        "--format",
        choices=("text", "markdown", "html"),
        help="the format of the file; default: from its name",
    )
    parser.add_argument(
        "--tokens",
        type=whole(1, 1_000_000),
        metavar="N",
        help="the most tokens of a chunk (default 256, or what the model takes)",
    )
    parser.add_argument(
        "--overlap",
        type=whole(0, 1_000_000),
        metavar="N",
        help="the most tokens that a chunk repeats of the one before it (default 32, or half of "
        "--tokens)",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON line for each chunk")
    _add_connection(parser)


def _add_compare(commands: Any) -> None:
    parser = add_command(
        commands,
        "compare",
        "Compare two endpoints: vectors, rankings, latencies.",
        run="_compare_command.run_compare",
        epilog="Both are asked by OpenAI's API. A key of --api-key-env is sent to URL_A only.",
    )
    parser.add_argument("url_a", metavar="URL_A", help="such as an endpoint to move from")
    parser.add_argument("url_b", metavar="URL_B", help="such as one of this kit")
    parser.add_argument("file", type=Path, metavar="FILE", help="texts to embed at both")
    _add_reading(parser, "from its name")
    parser.add_argument("--json", action="store_true", help="print JSON")
    add_credentials(parser)


def _add_mcp(commands: Any) -> None:
    parser = add_command(
        commands,
        "mcp",
        "Connect an agent to an endpoint: the MCP bridge that signs.",
        run="_mcp_bridge.run_bridge",
        epilog="The agent starts this command, and speaks the Model Context Protocol with it over "
        "standard input and output. The endpoint needs `mcp = true` under [function].",
    )
    _add_connection(parser)


class _Parser(argparse.ArgumentParser):
    def print_help(self, file: Any = None) -> None:
        # The method of the base class ignores errors of the file.
        (file or sys.stdout).write(self.format_help())


class _Version(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version  # noqa: PLC0415  (only for --version)

        print(f"embed {version('embedding-client')}")
        parser.exit()


def _add_reading(parser: Any, default: str = "from its name, text for standard input") -> None:
    parser.add_argument("--column", default="text", help="the field with the text (default: text)")
    parser.add_argument(
        "--format", choices=FORMATS, help=f"the format of the file; default: {default}"
    )


def _add_url(parser: Any, default: str = "default") -> None:
    url = os.environ.get(URL_VARIABLE)
    parser.add_argument("--url", default=url, help=f"{default}: ${URL_VARIABLE}")


def _add_connection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("endpoint")
    places = group.add_mutually_exclusive_group()
    _add_url(places)
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


_EPILOG = """\
examples:
  embed doctor --environment production
  embed doctor --url https://<id>.lambda-url.<region>.on.aws/ --json

exit status:
  0  no check has failed; there may be warnings and skipped checks
  1  a check has failed, or an error was printed to standard error
  2  invalid arguments
  130  stopped by Ctrl-C or SIGTERM
"""


def _add_doctor(commands: Any) -> None:
    parser = add_command(
        commands,
        "doctor",
        "Check a deployed endpoint from outside, and print what to do.",
        run="_doctor.command.run_doctor",
        examples=_EPILOG,
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--environment", metavar="NAME", help="an environment deployed by `scripts/deploy`"
    )
    _add_url(place, "default, without --environment")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    add_credentials(parser)
    parser.add_argument(
        "--deployer",
        action="store_true",
        help="only warn if the endpoint refuses these credentials, which need not be a caller's",
    )
    compared = parser.add_argument_group("what to compare with")
    compared.add_argument(
        "--vector-space", metavar="NAME", help="the vector space of your stored vectors"
    )
    compared.add_argument(
        "--accept-vector-space",
        action="store_true",
        help="remember the vector space even if it differs from that of the last use",
    )
    compared.add_argument(
        "--image-days",
        type=whole(0, 100_000),
        default=90,
        metavar="N",
        help="warn if the base image is older than N days (default: %(default)s)",
    )


_LOAD_EXAMPLES = """\
examples:
  embed load --url https://... --rate 50 --minutes 5
  embed load --url http://127.0.0.1:9000 --rate 10 --minutes 0.5 --tokens 8..400

AWS bills the requests of a test. A test ends at --minutes, --requests or
Ctrl-C, whichever is first, waits up to --timeout for answers, and then writes
its report. It never sends a request twice.

exit status:
  0  the test ended; throttled requests (429) are not errors
  1  the test could not start, an error such as expired credentials ended it,
     or its report could not be written
  2  invalid arguments
  3  the test ended, and requests failed, timed out or were refused
  130  stopped by Ctrl-C or SIGTERM
"""
_MOST_TOKENS = 32_768


def _add_load(commands: Any) -> None:
    parser = add_command(
        commands,
        "load",
        "Test an endpoint at a rate of requests; report latencies and errors.",
        run="_load_command.run_load",
        examples=_LOAD_EXAMPLES,
    )
    traffic = parser.add_argument_group("traffic")
    rate = "requests a second on average, at random times"
    _add_number(traffic, "--rate", between(0.001, 10_000), 5.0, rate)
    traffic.add_argument(
        "--tokens",
        type=_tokens,
        metavar="N..M",
        help="tokens of each text: a number, or a range with many short and few long ones "
        "(default 8..400, or the model's limit if that is lower)",
    )
    traffic.add_argument(
        "--seed", type=int, default=0, help="seed of the random times and texts (default 0)"
    )
    limits = parser.add_argument_group("limits")
    _add_number(limits, "--minutes", between(0.01, 24 * 60), 1.0, "the length of the test")
    _add_number(
        limits, "--requests", whole(1, 10_000_000), 100_000, "end after this number of requests"
    )
    connections = "the most requests at the same time; others wait"
    _add_number(limits, "--connections", whole(1, 20_000), 1000, connections)
    _add_number(
        limits, "--timeout", between(0.1, 900), 60.0, "timeout of a request", metavar="SECONDS"
    )
    endpoint = parser.add_argument_group("endpoint")
    _add_url(endpoint)
    add_credentials(endpoint)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print JSON instead of the table")
    output.add_argument(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the JSON to this file, too; an existing one is replaced",
    )


def _add_number(
    group: Any, name: str, kind: Any, default: float, text: str, *, metavar: str = "N"
) -> None:
    shown = f"{text} (default {default:g})"
    group.add_argument(name, type=kind, default=default, metavar=metavar, help=shown)


def _tokens(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    try:
        found = int(low), int(high if dots else low)
    except ValueError:
        found = (0, 0)
    if not 1 <= found[0] <= found[1] <= _MOST_TOKENS:
        raise argparse.ArgumentTypeError(
            f"found: {text}; allowed: a number or a range such as 8..400, from 1 to "
            f"{_MOST_TOKENS:,}"
        )
    return found
