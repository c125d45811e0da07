"""Shows how far a run or a job is: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn, TypeVar

from tqdm import tqdm

from embedding_client._errors import print_error

_INTERVAL = 10.0
_Status = TypeVar("_Status")


class LineProgress:
    """Prints a line to standard error every ten seconds."""

    def __init__(
        self, name: str, total: int, done: int, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name, self._total = name, total
        self._done = self._before = done
        self._clock = clock
        self._start = self._last = clock()

    def update(self, rows: int) -> None:
        """Add complete rows. Print a line if the last one is at least ten seconds old."""
        self._done += rows
        now = self._clock()
        if now - self._last < _INTERVAL:
            return
        self._last = now
        rate = (self._done - self._before) / (now - self._start)
        left = tqdm.format_interval((self._total - self._done) / rate) if rate else "?"
        print_error(
            f"{self._name}: {self._done} of {self._total} rows "
            f"({self._done / self._total:.0%}), {rate:.1f} rows/s, {left} left"
        )

    def close(self) -> None:
        """Do nothing. The command prints the last line."""


def progress_on(name: str, *, total: int, done: int) -> "LineProgress | tqdm[NoReturn]":
    """Return a progress bar if standard error is a terminal, else lines."""
    if not sys.stderr.isatty():
        return LineProgress(name, total, done)
    return tqdm(total=total, initial=done, unit=" rows", desc=name, smoothing=0.1)


#: Seconds between two looks at a job that is followed.
_LOOK_SECONDS = 5.0


class Shown(NamedTuple):
    """How far a job is, for one line."""

    text: str
    done: int
    #: None until the job is planned.
    total: int | None


def follow(
    name: str,
    status: _Status,
    look: Callable[[], _Status],
    show: Callable[[_Status], Shown | None],
    *,
    on_terminal: bool,
) -> _Status:
    """Show a job until `show` returns None, because it has ended; return its last status."""
    layout = "{percentage:3.0f}%|{bar:20}| {desc}"
    seconds = 0.0
    with tqdm(bar_format=layout, disable=not on_terminal, leave=False) as bar:
        while (shown := show(status)) is not None:
            bar.total, bar.n = shown.total, shown.done
            bar.set_description_str(shown.text)
            if not on_terminal:
                print(f"{name}: {shown.text}", file=sys.stderr, flush=True)
            # A look at a large job lists many names. It takes up to a tenth of the time.
            time.sleep(max(_LOOK_SECONDS, 9 * seconds))
            began = time.monotonic()
            status = look()
            seconds = time.monotonic() - began
    return status
