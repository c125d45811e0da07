"""The command line of `scripts/verify-image` and `scripts/rehearse`."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from image_rehearsal.report import Report

__all__ = ["run"]

_ROOT = Path(__file__).parents[2]


def run(prog: str, description: str | None, rehearse: Callable[..., Report]) -> int:
    """Read the command line, rehearse, and print the table.

    Args:
        prog: The command's name.
        description: The description in its help.
        rehearse: A function of the checkout, the environment's name, and `require_containers`.

    Returns:
        The exit status: 0 if no check fails.
    """
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("environment", nargs="?", default="dev", help="default: dev")
    parser.add_argument(
        "--require-containers",
        action="store_true",
        default=bool(os.environ.get("CI")),
        help="fail if containers cannot run; the default if CI is set",
    )
    asked = parser.parse_args()
    report = rehearse(_ROOT, asked.environment, require_containers=asked.require_containers)
    print(report.render())
    return 1 if report.broken else 0
