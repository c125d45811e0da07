"""The command line of `scripts/test-image` and `scripts/rehearse`."""

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from tools.rehearsal.image.report import Report

__all__ = ["run"]

_ROOT = Path(__file__).parents[3]


def run(
    prog: str, description: str | None, rehearse: Callable[..., Report], *, several: bool = False
) -> int:
    """Read the command line, rehearse, and print the table.

    Args:
        prog: The command's name.
        description: The description in its help.
        rehearse: A function of the checkout, the environments' names, and `require_containers`.
        several: Whether it takes more than one environment.

    Returns:
        The exit status: 0 if no check fails.
    """
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument(
        "environment", nargs="*" if several else "?", default="dev", help="default: dev"
    )
    parser.add_argument(
        "--require-containers",
        action="store_true",
        default=bool(os.environ.get("CI")),
        help="fail if containers cannot run; the default if CI is set",
    )
    asked = parser.parse_args()
    names = asked.environment if isinstance(asked.environment, list) else [asked.environment]
    report = rehearse(_ROOT, *names, require_containers=asked.require_containers)
    print(report.render())
    return 1 if report.broken else 0
