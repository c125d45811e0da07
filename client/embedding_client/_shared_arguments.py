"""The shared parts of the commands of `embed`: parsers, credentials, and numbers in a range."""

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Any

#: The environment variable with the endpoint's URL.
URL_VARIABLE = "EMBEDDING_URL"
#: The input formats. All except Parquet may be compressed with gzip.
FORMATS = ("text", "json", "jsonl", "csv", "tsv", "parquet")
_RAW = argparse.RawDescriptionHelpFormatter


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
