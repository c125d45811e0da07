"""Follows a job on AWS: a bar on a terminal, a line for each look elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from tqdm import tqdm

__all__ = ["Shown", "follow"]

#: Seconds between two looks at a job that is followed.
_INTERVAL = 5.0


class Shown(NamedTuple):
    """How far a job is, for one line."""

    text: str
    done: int
    #: None until the job is planned.
    total: int | None


class _Status(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...


Status = TypeVar("Status", bound=_Status)


def follow(
    status: Status,
    look: Callable[[], Status],
    show: Callable[[Status], Shown],
    *,
    on_terminal: bool,
) -> Status:
    """Show a running job until it ends, and return its last status."""
    layout = "{percentage:3.0f}%|{bar:20}| {desc}"
    seconds = 0.0
    with tqdm(bar_format=layout, disable=not on_terminal, leave=False) as bar:
        while status.state == "RUNNING":
            shown = show(status)
            bar.total, bar.n = shown.total, shown.done
            bar.set_description_str(shown.text)
            if not on_terminal:
                print(f"{status.name}: {shown.text}", file=sys.stderr, flush=True)
            # A look at a large job lists many names. It takes up to a tenth of the time.
            time.sleep(max(_INTERVAL, 9 * seconds))
            began = time.monotonic()
            status = look()
            seconds = time.monotonic() - began
    return status
