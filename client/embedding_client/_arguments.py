"""The arguments of the commands that call an endpoint, and those that all commands share.

The modules of arguments import only what `--help` needs.
"""

import argparse
import os
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

#: The environment variable with the endpoint's URL.
URL_VARIABLE = "EMBEDDING_URL"
#: The input formats. All except Parquet may be compressed with gzip.
FORMATS = ("text", "json", "jsonl", "csv", "tsv", "parquet")
#: The hint for words that a shell has divided.
IN_QUOTES = "Put a text with spaces in quotes"
_RAW = argparse.RawDescriptionHelpFormatter

_FILE = "a text, JSON, JSONL, CSV, TSV or Parquet file; - is standard input"


def add_calls(commands: Any) -> None:
    """Add the commands, except that of no name."""
    _add_info(commands)
    _add_models(commands)
    _add_search(commands)
    _add_rerank(commands)
    _add_classify(commands)
    _add_chunk(commands)
    _add_compare(commands)
    _add_mcp(commands)


def add_embed(commands: Any, examples: str) -> argparse.ArgumentParser:
    """Add `embed` itself."""
    parser = add_command(
        commands,
        "embed",
        "Embed texts at a Function URL with signed requests.",
        run="_embed_command.embed",
        examples=examples,
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


def _add_info(commands: Any) -> None:
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
        run="models.run_models",
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


def _add_search(commands: Any) -> None:
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
        help="what is compared; hybrid: vectors and words, fused by their scores",
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


def _add_rerank(commands: Any) -> None:
    parser = add_command(
        commands,
        "rerank",
        "Rank the texts of a file for a query, by the endpoint's reranker.",
        run="_embed_command.rerank",
    )
    parser.add_argument("query", metavar="QUERY", help="the text to rank for")
    parser.add_argument("file", type=Path, metavar="FILE", help=_FILE)
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


def _add_classify(commands: Any) -> None:
    parser = add_command(
        commands,
        "classify",
        "Label texts, or those of a file, by the endpoint's classifier.",
        run="_embed_command.classify",
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT", help="texts; default: standard input")
    parser.add_argument("--file", type=Path, help=_FILE)
    _add_reading(parser)
    parser.add_argument(
        "--truncate",
        action=argparse.BooleanOptionalAction,
        help="whether to cut the end of a text over the limit (default: the endpoint's)",
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON line for each text, with all labels"
    )
    parser.set_defaults(output=None)
    _add_connection(parser)


def _add_chunk(commands: Any) -> None:
    parser = add_command(
        commands,
        "chunk",
        "Show the chunks that [ingest] makes of documents; embeds nothing.",
        run="_chunk_command.chunk",
        epilog="scripts/serve on this machine divides them. The exit status is 3 if some of the "
        "documents cannot be read, and 1 if none can.",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a file, or a folder of them")
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
    parser.add_argument(
        "--metadata",
        metavar="KEY",
        action="append",
        default=[],
        help="a metadata key that documents may have; may be repeated",
    )
    parser.add_argument("--json", action="store_true", help="print a JSON line for each chunk")
    parser.add_argument(
        "--url",
        help=f"that of scripts/serve (default: ${URL_VARIABLE} if it is of this machine, else "
        "http://127.0.0.1:9000)",
    )


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


def _add_connection(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("endpoint")
    target = group.add_mutually_exclusive_group()
    add_url(target)
    target.add_argument(
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


def add_url(parser: Any, default: str = "default") -> None:
    """Add `--url`."""
    url = os.environ.get(URL_VARIABLE)
    parser.add_argument("--url", default=url, help=f"{default}: ${URL_VARIABLE}")


def add_command(
    commands: Any, name: str, description: str, *, run: str, examples: str = "", **more: Any
) -> argparse.ArgumentParser:
    """Add a command, run by a function such as `_index.count`, imported late."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        description=description,
        help=description,
        **({"epilog": examples, "formatter_class": _RAW} if examples else {}),
        **more,
    )
    module, _, function = run.rpartition(".")

    def run_it(args: argparse.Namespace) -> Any:
        return getattr(import_module(f"embedding_client.{module}"), function)(args)

    parser.set_defaults(run=run_it, usage_error=parser.error)
    return parser


def add_credentials(parser: Any) -> None:
    """Add who signs, or which key is sent, to a parser or a group of its arguments."""
    add_profile(parser)
    parser.add_argument(
        "--region", help="default: that in the URL or the ARN, or the configured one"
    )
    parser.add_argument(
        "--api-key-env",
        metavar="VARIABLE",
        help="send the API key in this environment variable instead of a signature",
    )
    parser.add_argument(
        "--allow-plain-http",
        action="store_true",
        help="call another machine without TLS, where texts and keys travel in the clear",
    )


def add_profile(parser: Any) -> None:
    """Add `--profile`."""
    parser.add_argument("--profile", help="an AWS profile; default: $AWS_PROFILE")


def between(low: float, high: float) -> Callable[[str], float]:
    """Return the type of an argument that is a number in a range."""

    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"found: {text}; allowed: {low:g} to {high:,.10g}")
        return value

    return parsed


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return the type of an argument that is a whole number in a range."""

    def parsed(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(
                f"found: {text}; allowed: a whole number from {low} to {high:,}"
            )
        return int(text)

    return parsed
