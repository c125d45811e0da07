"""The report of a rehearsal: one row per check."""

import shutil
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["Report", "Row"]


@dataclass(frozen=True, kw_only=True)
class Row:
    """One check.

    Attributes:
        subject: The resource or the part of the image.
        checked: The check, as a sentence without a period.
        by: The source of the result.
        holds: Whether the check succeeded.
        found: The value found; empty if the outcome says enough.
    """

    subject: str
    checked: str
    by: str
    holds: bool
    found: str = ""


@dataclass
class Report:
    """The rows of one rehearsal, in the order of the checks.

    Attributes:
        title: The first line.
        about: The part that the next rows are about, which their subjects name.
        rows: The checks.
        notes: The notes below the table.
    """

    title: str
    about: str = ""
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def check(
        self, subject: str, checked: str, holds: bool, *, by: str, found: object = ""
    ) -> bool:
        """Add a check, and print it at once if it fails."""
        subject = f"{self.about}: {subject}" if self.about else subject
        row = Row(subject=subject, checked=checked, by=by, holds=holds, found=str(found))
        self.rows.append(row)
        if not holds:
            print(_broken(row), file=sys.stderr, flush=True)
        return holds

    def note(self, text: str) -> None:
        """Add a note below the table."""
        self.notes.append(text)

    @property
    def broken(self) -> list[Row]:
        """The failed checks."""
        return [row for row in self.rows if not row.holds]

    def render(self, width: int | None = None) -> str:
        """Return the table, the notes and the summary, for a terminal of `width` columns."""
        total = width or max(100, min(200, shutil.get_terminal_size((140, 40)).columns))
        lines = [self.title, ""]
        lines += _table(self.rows, total)
        lines += ["", *(line for note in self.notes for line in textwrap.wrap(f"- {note}", total))]
        verdict = f"{len(self.rows) - len(self.broken)} of {len(self.rows)} checks hold"
        broken = [_broken(row) for row in self.broken]
        return "\n".join([*lines, "", *broken, verdict])

    @contextmanager
    def step(self, text: str) -> Iterator[None]:
        """Print a step and its duration."""
        print(f"{text} ...", file=sys.stderr, flush=True)
        start = time.monotonic()
        yield
        print(f"  {time.monotonic() - start:.1f} s", file=sys.stderr, flush=True)


def _broken(row: Row) -> str:
    return f"BROKEN  {row.subject}: {row.checked}; found: {row.found}"


def _table(rows: list[Row], total: int) -> list[str]:
    heads = ("subject", "check", "source", "outcome", "found")
    shares = (0.17, 0.31, 0.2, 0.08, 0.24)
    widths = [max(9, int((total - 8) * share)) for share in shares]
    lines = [_line(heads, widths), _line(tuple("-" * w for w in widths), widths)]
    for row in rows:
        outcome = "holds" if row.holds else "BROKEN"
        cells = [row.subject, row.checked, row.by, outcome, row.found]
        wrapped = [textwrap.wrap(c, w) or [""] for c, w in zip(cells, widths, strict=True)]
        height = max(len(cell) for cell in wrapped)
        lines += [
            _line(tuple(c[i] if i < len(c) else "" for c in wrapped), widths) for i in range(height)
        ]
    return lines


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    return "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip()
