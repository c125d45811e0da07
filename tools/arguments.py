"""Types of arguments: numbers in a range."""

import argparse
from collections.abc import Callable


def between(low: float, high: float) -> Callable[[str], float]:
    """Return the type of a number in a range."""

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
    """Return the type of a whole number in a range."""

    def parsed(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(
                f"found: {text}; allowed: a whole number from {low} to {high:,}"
            )
        return int(text)

    return parsed
