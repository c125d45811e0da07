"""What the two commands, `scripts/verify-image` and `scripts/rehearse`, have in common."""

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
        prog: What the command is called by those who type it.
        description: For its help.
        rehearse: Takes the checkout, the environment's name, and whether containers are required.

    Returns:
        The exit status: 0 where nothing is broken.
    """
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("environment", nargs="?", default="dev", help="default: dev")
    parser.add_argument(
        "--require-containers",
        action="store_true",
        default=bool(os.environ.get("CI")),
        help="fail where containers cannot run; the default where CI is set",
    )
    asked = parser.parse_args()
    report = rehearse(_ROOT, asked.environment, require_containers=asked.require_containers)
    print(report.render())
    return 1 if report.broken else 0
