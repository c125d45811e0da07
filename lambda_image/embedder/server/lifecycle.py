"""From the first request to the last: serving, draining, refusing."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator


class Lifecycle:
    """Where the server is between its start and its end.

    A load balancer learns from `/ready` that a server is about to stop, and sends requests until it
    has asked. So requests are still answered for `accept` seconds after SIGTERM; then new ones are
    refused, and those under way are finished. Both parts take at most `total` seconds.
    """

    def __init__(self, *, accept: float, total: float) -> None:
        self._accept, self._total = accept, total
        self.draining = False
        self.refusing = False
        #: Requests that are being answered, without those for `/live` and the like.
        self.in_flight = 0
        self._idle = asyncio.Event()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Count a request until its end, for which the end of the server waits."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._idle.set()

    async def drain(self, stop: Callable[[], None], *, accept: bool = True) -> None:
        """Go through both parts, then call `stop`; `accept`: also through the first."""
        end = time.monotonic() + self._total
        self.draining = True
        if accept:
            await asyncio.sleep(self._accept)
        self.refusing = True
        if self.in_flight:
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), max(0.0, end - time.monotonic()))
        stop()
