"""The report of a rehearsal: steps, the checks of each, and at the end those that do not hold."""

import argparse
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

_ROOT = Path(__file__).parents[2]


class StoppedError(Exception):
    """A check does not hold, and what follows needs it."""


@dataclass
class Report:
    """Prints each check when it is made, and at the end the notes and the broken checks."""

    held: int = 0
    broken: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print a step and its duration."""
        print(f"{text} ...", flush=True)
        start = time.monotonic()
        yield
        print(f"  {time.monotonic() - start:.1f} s", flush=True)

    def check(self, text: str, holds: bool, found: object = "") -> None:
        """Make a check: a sentence without a period, and the value that was found."""
        line = f"{text}; found: {found}" if str(found) else text
        print(f"  {'holds ' if holds else 'BROKEN'}  {line}", flush=True)
        if holds:
            self.held += 1
        else:
            self.broken.append(line)

    def need(self, text: str, holds: bool, found: object = "") -> None:
        """Make a check that the next steps need, or raise StoppedError."""
        self.check(text, holds, found)
        if not holds:
            raise StoppedError(text)

    def end(self) -> int:
        """Print the notes and the broken checks, and return the command's exit status."""
        for note in self.notes:
            print(f"\n{note}")
        print()
        for line in self.broken:
            print(f"BROKEN  {line}")
        print(f"{self.held} of {self.held + len(self.broken)} checks hold")
        return 1 if self.broken else 0


def run(
    prog: str, description: str | None, rehearse: Callable[..., None], *, several: bool = False
) -> int:
    """Read the command line, rehearse, and return the exit status: 0 if no check fails.

    `rehearse` gets the report, the repository, one or `several` names of environments, and
    `require_containers`.
    """
    parser = argparse.ArgumentParser(prog=prog, description=description)
    count = "*" if several else "?"
    parser.add_argument("environment", nargs=count, default="dev", help="default: dev")
    parser.add_argument(
        "--require-containers",
        action="store_true",
        default=bool(os.environ.get("CI")),
        help="fail if containers cannot run; the default if CI is set",
    )
    options = parser.parse_args()
    names = options.environment if isinstance(options.environment, list) else [options.environment]
    report = Report()
    try:
        rehearse(report, _ROOT, *names, require_containers=options.require_containers)
    except StoppedError:
        report.notes.append("The rehearsal stopped there: what follows needs the broken check.")
    return report.end()


def first_few(found: list[str], most: int = 4) -> str:
    """Return the first few items, and the number of the others."""
    suffix = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + suffix
