"""What a rehearsal found: one row a check, and whether all of it holds."""

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
    """How a check ended; `UNPROVEN` cannot be shown here, and never stands for a failure."""

    HOLDS = "holds"
    BROKEN = "BROKEN"
    UNPROVEN = "not shown"


@dataclass(frozen=True, kw_only=True)
class Row:
    """One check.

    Attributes:
        subject: The resource or the part of the image.
        checked: What was checked, as a sentence without a full stop.
        by: What the answer comes from.
        outcome: How it ended.
        found: What was found, where that says more than the outcome.
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
        """Add a check that was made, and tell at once when it is broken."""
        outcome = Outcome.HOLDS if holds else Outcome.BROKEN
        self.rows.append(
            Row(subject=subject, checked=checked, by=by, outcome=outcome, found=str(found))
        )
        if not holds:
            print(f"BROKEN  {subject}: {checked}; found: {found}", file=sys.stderr, flush=True)
        return holds

    def unproven(self, subject: str, checked: str, *, instead: str) -> None:
        """Add what cannot be shown here, and what was looked at instead."""
        self.rows.append(
            Row(subject=subject, checked=checked, by=instead, outcome=Outcome.UNPROVEN)
        )

    def note(self, text: str) -> None:
        """Add a sentence that a reader of the table must know."""
        self.notes.append(text)

    @property
    def broken(self) -> list[Row]:
        """The checks that do not hold."""
        return [row for row in self.rows if row.outcome is Outcome.BROKEN]

    def render(self, width: int | None = None) -> str:
        """Write the table, the notes and the verdict, for a terminal of `width` columns."""
        total = width or max(100, min(200, shutil.get_terminal_size((140, 40)).columns))
        lines = [self.title, ""]
        lines += _table(self.rows, total)
        lines += ["", *(line for note in self.notes for line in textwrap.wrap(f"- {note}", total))]
        made = [row for row in self.rows if row.outcome is not Outcome.UNPROVEN]
        verdict = f"{len(made) - len(self.broken)} of {len(made)} checks hold"
        if unproven := len(self.rows) - len(made):
            verdict += f"; {unproven} things cannot be shown here"
        return "\n".join([*lines, "", verdict])

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Say what is being done, and how long it took."""
        print(f"{text} ...", file=sys.stderr, flush=True)
        start = time.monotonic()
        yield
        print(f"  {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


def _table(rows: list[Row], total: int) -> list[str]:
    heads = ("subject", "what was checked", "by", "outcome", "found")
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
