"""The report of a rehearsal: steps, the checks of each, and at the end those that do not hold."""

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


def run(rehearse: Callable[[Report, Path], None]) -> int:
    """Rehearse with a report and the repository; return 0 if no check fails, else 1."""
    report = Report()
    try:
        rehearse(report, _ROOT)
    except StoppedError:
        report.notes.append("The rehearsal stopped there: what follows needs the broken check.")
    return report.end()


def first_few(found: list[str], most: int = 4) -> str:
    """Return the first few items, and the number of the others."""
    suffix = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(found[:most]) + suffix
