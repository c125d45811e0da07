"""A trace of arrivals from a CSV file."""

import csv
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from operations.cost.duration import Speed, billed_seconds, core_seconds
from operations.cost.errors import CostError
from operations.cost.simulation import Sample
from operations.cost.traffic import MONTH_SECONDS, Load, Traffic

__all__ = ["Trace", "read_trace"]

_ALLOWED = (
    "lines of a time and, if known, a number of tokens: seconds or ISO 8601, such as "
    "2026-11-02T08:30:00.125Z,212"
)
_BIN = 60.0


class Trace:
    """Arrivals in seconds from the first one, and each one's tokens.

    Attributes:
        arrivals: Rising times, float64.
        tokens: The tokens of each, int64.
    """

    def __init__(self, arrivals: np.ndarray, tokens: np.ndarray) -> None:
        order = np.argsort(arrivals, kind="stable")
        self.arrivals = arrivals[order] - arrivals[order[0]]
        self.tokens = tokens[order]

    @property
    def traffic(self) -> Traffic:
        """The trace as a month's traffic, at its own rate in each minute."""
        counts = np.bincount((self.arrivals / _BIN).astype(np.int64))
        mean = counts.mean()
        loads = tuple(
            Load(number / len(counts), float(count / mean))
            for count, number in sorted(Counter(counts.tolist()).items())
        )
        return Traffic(
            requests=len(self.arrivals) * MONTH_SECONDS / (len(counts) * _BIN),
            tokens=round(float(self.tokens.mean())),
            shape="trace",
            loads=loads,
        )

    def core_seconds(self, speed: Speed) -> float:
        """Return the mean seconds of one core for a request."""
        lengths, counts = np.unique(self.tokens, return_counts=True)
        times = [core_seconds(speed, int(length)) for length in lengths]
        return float(np.average(times, weights=counts))

    def sample(self, speed: Speed, *, memory_mb: int, threads: int | None) -> Sample:
        """Return the arrivals with the billed seconds of each."""
        lengths, places = np.unique(self.tokens, return_inverse=True)
        times = [
            billed_seconds(core_seconds(speed, int(length)), memory_mb=memory_mb, threads=threads)
            for length in lengths
        ]
        return Sample(self.arrivals, np.array(times)[places])


def read_trace(file: Path, *, tokens: int) -> Trace:
    """Read a trace.

    Args:
        file: The file. A first line that starts with no time is a heading.
        tokens: The tokens of a line without them.

    Raises:
        CostError: The file cannot be read, or a line has no time.
    """
    try:
        with file.open(encoding="utf-8-sig", newline="") as stream:
            rows = list(_rows(csv.reader(stream), file.name, tokens))
    except OSError as error:
        raise CostError(f"{file} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, csv.Error):
        raise CostError(f"{file} is no CSV file; allowed: {_ALLOWED}") from None
    if len(rows) < 2:
        raise CostError(f"{file} has {len(rows)} arrivals; allowed: two or more")
    times, counts = zip(*rows, strict=True)
    return Trace(np.array(times), np.array(counts, dtype=np.int64))


def _rows(lines: Iterator[list[str]], name: str, tokens: int) -> Iterator[tuple[float, int]]:
    for number, fields in enumerate(lines, start=1):
        if not fields or not fields[0].strip():
            continue
        try:
            count = int(fields[1]) if len(fields) > 1 and fields[1].strip() else tokens
            time = _time(fields[0].strip())
        except ValueError:
            if number == 1:
                continue
            found = ",".join(fields)[:80]
            raise CostError(f"{name}, line {number}: found: {found}; allowed: {_ALLOWED}") from None
        if count < 1:
            raise CostError(f"{name}, line {number}: found: {count} tokens; allowed: 1 or more")
        yield time, count


def _time(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if not np.isfinite(value):
        raise ValueError(text)
    return value
