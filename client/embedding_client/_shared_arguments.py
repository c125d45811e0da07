"""What the commands of `embed` have in common: credentials, and numbers in a range."""

import argparse
from collections.abc import Callable
from typing import Any

__all__ = ["URL_VARIABLE", "add_credentials", "between", "whole"]

#: The environment variable with the endpoint's URL.
URL_VARIABLE = "EMBEDDING_URL"


def add_credentials(parser: Any) -> None:
    """Add who signs, or which key is sent, to a parser or a group of its arguments."""
    parser.add_argument("--profile", help="an AWS profile; default: $AWS_PROFILE")
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
