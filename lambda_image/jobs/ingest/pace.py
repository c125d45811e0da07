"""The rate of a load: AWS takes 2,500 vectors a second for an index, from all writers together."""

import threading
import time
from collections.abc import Callable

__all__ = ["Pace"]


class Pace:
    """Limits how many vectors a second are written. Threads may share it.

    Args:
        vectors_per_second: The highest rate.
        now: A clock in seconds.
        sleep: Waits for seconds.
    """

    def __init__(
        self,
        vectors_per_second: float,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = vectors_per_second
        self._now = now
        self._sleep = sleep
        self._free = now()
        self._lock = threading.Lock()

    def claim(self, vectors: int) -> None:
        """Wait until all earlier vectors have had their time, then take that of these."""
        with self._lock:
            start = max(self._now(), self._free)
            self._free = start + vectors / self._rate
        self._wait_until(start)

    def settle(self) -> None:
        """Wait until all vectors have had their time, so that another writer may begin."""
        with self._lock:
            end = self._free
        self._wait_until(end)

    def _wait_until(self, moment: float) -> None:
        pause = moment - self._now()
        if pause > 0:
            self._sleep(pause)
