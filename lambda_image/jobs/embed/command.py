"""What the commands of jobs and of loads share: their exit statuses, errors and numbers.

A command imports the code that needs the extra `batch` when it runs, so that a missing package is
an error of one line. These modules need the standard library alone.
"""

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from embedder.core.errors import EmbedderError
from jobs.embed.errors import BatchError, RejectedRowsError

__all__ = ["between", "positive", "run_command"]

_INTERRUPTED = 130


def run_command(
    run: Callable[[argparse.Namespace], Any], options: argparse.Namespace, *, interrupted: str
) -> int:
    """Run a command, and print its result as JSON.

    Args:
        run: Returns a named tuple.
        options: The arguments of `run`.
        interrupted: What to print after Ctrl-C.

    Returns:
        The exit status: 0; 1 after an error; 3 if too many rows were rejected; 130 after Ctrl-C.
    """
    try:
        result = run(options)
    except RejectedRowsError as error:
        return _failed(str(error), 3)
    except (BatchError, EmbedderError) as error:
        return _failed(str(error), 1)
    except ModuleNotFoundError as error:
        return _failed(f"{error.name} is missing: pip install 'embedding-kit[batch]'.", 1)
    except KeyboardInterrupt:
        print(f"\n{interrupted}", file=sys.stderr)
        return _INTERRUPTED
    print(json.dumps(result._asdict()))
    return 0


def _failed(problem: str, status: int) -> int:
    print(f"error: {problem}", file=sys.stderr)
    return status


def positive(text: str) -> int:
    """Read an argument that is a whole number of 1 or more."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be 1 or more; found {value}")
    return value


def between(least: int, most: int) -> Callable[[str], int]:
    """Return a function that reads an argument that is a whole number in a range."""

    def number(text: str) -> int:
        value = int(text)
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"must be from {least} to {most}; found {value}")
        return value

    return number
