"""The report of a rehearsal: one row per check."""

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Outcome", "Report", "Row"]


class Outcome(Enum):
    """The outcome of a check. `NOT_SHOWN` needs an AWS account and is not a failure."""

    HOLDS = "holds"
    BROKEN = "BROKEN"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One check.

    Attributes:
        subject: The resource or the part of the image.
        checked: The check, as a sentence without a period.
        by: The source of the result.
        outcome: The outcome.
        found: The value found; empty if the outcome says enough.
    """

    subject: str
    checked: str
    by: str
    outcome: Outcome
    found: str = ""


@dataclass
class Report:
    """The rows of one rehearsal, in the order of the checks."""

    title: str
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def check(
        self, subject: str, checked: str, holds: bool, *, by: str, found: object = ""
    ) -> bool:
        """Add a check, and print it at once if it fails."""
        outcome = Outcome.HOLDS if holds else Outcome.BROKEN
        self.rows.append(
            Row(subject=subject, checked=checked, by=by, outcome=outcome, found=str(found))
        )
        if not holds:
            print(f"BROKEN  {subject}: {checked}; found: {found}", file=sys.stderr, flush=True)
        return holds

    def not_shown(self, subject: str, checked: str, *, instead: str) -> None:
        """Add a check that needs an AWS account, with its substitute."""
        self.rows.append(
            Row(subject=subject, checked=checked, by=instead, outcome=Outcome.NOT_SHOWN)
        )

    def note(self, text: str) -> None:
        """Add a note below the table."""
        self.notes.append(text)

    @property
    def broken(self) -> list[Row]:
        """The failed checks."""
        return [row for row in self.rows if row.outcome is Outcome.BROKEN]

    def render(self, width: int | None = None) -> str:
        """Return the table, the notes and the summary, for a terminal of `width` columns."""
        total = width or max(100, min(200, shutil.get_terminal_size((140, 40)).columns))
        lines = [self.title, ""]
        lines += _table(self.rows, total)
        lines += ["", *(line for note in self.notes for line in textwrap.wrap(f"- {note}", total))]
        made = [row for row in self.rows if row.outcome is not Outcome.NOT_SHOWN]
        verdict = f"{len(made) - len(self.broken)} of {len(made)} checks hold"
        if not_shown := len(self.rows) - len(made):
            verdict += f"; {not_shown} checks need an AWS account"
        return "\n".join([*lines, "", verdict])

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print a step and its duration."""
        print(f"{text} ...", file=sys.stderr, flush=True)
        start = time.monotonic()
        yield
        print(f"  {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


def _table(rows: list[Row], total: int) -> list[str]:
    heads = ("subject", "check", "source", "outcome", "found")
    shares = (0.17, 0.31, 0.2, 0.08, 0.24)
    widths = [max(9, int((total - 8) * share)) for share in shares]
    lines = [_line(heads, widths), _line(tuple("-" * w for w in widths), widths)]
    for row in rows:
        cells = [row.subject, row.checked, row.by, row.outcome.value, row.found]
        wrapped = [textwrap.wrap(c, w) or [""] for c, w in zip(cells, widths, strict=True)]
        height = max(len(cell) for cell in wrapped)
        lines += [
            _line(tuple(c[i] if i < len(c) else "" for c in wrapped), widths) for i in range(height)
        ]
    return lines


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip()
