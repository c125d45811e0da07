"""How far a run has come: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from tqdm import tqdm

__all__ = ["Lines", "Progress", "progress_on"]

_INTERVAL = 10.0


class Progress(Protocol):
    """Counts rows."""

    def update(self, rows: int) -> object:
        """Adds rows that are done."""

    def close(self) -> object:
        """Ends it."""


class Lines:
    """A line on standard error every ten seconds.

    Args:
        name: of the file.
        total: rows.
        done: rows that an earlier run did.
        clock: seconds from anywhere.
    """

    def __init__(
        self, name: str, total: int, done: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._total = name, total
        self._done = self._before = done
        self._clock = clock
        self._start = self._last = clock()

    def update(self, rows: int) -> None:
        """Adds rows that are done, and prints a line if the last one is ten seconds old."""
        self._done += rows
        now = self._clock()
        if now - self._last < _INTERVAL:
            return
        self._last = now
        rate = (self._done - self._before) / (now - self._start)
        left = tqdm.format_interval((self._total - self._done) / rate) if rate else "?"
        with suppress(OSError):  # a log that is full must not end the run
            sys.stderr.write(
                f"{self._name}: {self._done} of {self._total} rows "
                f"({self._done / self._total:.0%}), {rate:.1f} rows/s, {left} left\n"
            )
            sys.stderr.flush()

    def close(self) -> None:
        """Does nothing: the command itself prints the last line."""


def progress_on(name: str, *, total: int, done: int) -> Progress:
    """Returns a bar where standard error is a terminal, else lines."""
    if not sys.stderr.isatty():
        return Lines(name, total, done)
    bar: Progress = tqdm(total=total, initial=done, unit=" rows", desc=name, smoothing=0.1)
    return bar
