"""Shows how far a run is: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable
from threading import RLock
from typing import NoReturn

from tqdm import tqdm

from embedding_client.errors import print_error

# tqdm's own lock is for processes: `embed` ends immediately, and Python 3.14 would warn of a leak.
Bar = tqdm
Bar.set_lock(RLock())

_INTERVAL = 10.0


class LineProgress:
    """Prints a line to standard error every ten seconds."""

    def __init__(
        self,
        name: str,
        total: int,
        done: int,
        *,
        unit: str = "rows",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name, self._total, self._unit = name, total, unit
        self._done = self._before = done
        self._clock = clock
        self._start = self._last = clock()

    def update(self, count: int) -> None:
        """Count more as complete. Print a line if the last one is at least ten seconds old."""
        self._done += count
        moment = self._clock()
        if moment - self._last < _INTERVAL:
            return
        self._last = moment
        rate = (self._done - self._before) / (moment - self._start)
        remaining = tqdm.format_interval((self._total - self._done) / rate) if rate else "?"
        print_error(
            f"{self._name}: {self._done} of {self._total} {self._unit} "
            f"({self._done / self._total:.0%}), {rate:.1f} {self._unit}/s, {remaining} left"
        )

    def close(self) -> None:
        """Do nothing. The command prints the last line."""


def progress_on(
    name: str, *, total: int, done: int = 0, unit: str = "rows", leave: bool = True
) -> "LineProgress | tqdm[NoReturn]":
    """Return a progress bar if standard error is a terminal, else lines.

    `leave` says whether a bar stays when it is complete.
    """
    if not sys.stderr.isatty():
        return LineProgress(name, total, done, unit=unit)
    return tqdm(total=total, initial=done, unit=f" {unit}", desc=name, smoothing=0.1, leave=leave)
