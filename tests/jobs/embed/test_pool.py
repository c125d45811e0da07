"""Ctrl-C while a pool starts: it waits until the pool can be shut down."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from jobs.embed.pool import run_all


class InterruptedPool(ThreadPoolExecutor):
    """A pool that is interrupted while it starts."""

    def __init__(self) -> None:
        super().__init__(1)
        self.submitted = 0

    def submit(self, work, /, *args, **kwargs):
        """Get Ctrl-C at the first item."""
        if not self.submitted:
            os.kill(os.getpid(), signal.SIGINT)
        self.submitted += 1
        return super().submit(work, *args, **kwargs)


def test_ctrl_c_waits_until_the_pool_has_started():
    """All items were submitted, and the next Ctrl-C ends the process as before."""
    handler = signal.getsignal(signal.SIGINT)
    pool = InterruptedPool()
    with pytest.raises(KeyboardInterrupt):
        list(run_all(pool, str, range(3)))
    assert pool.submitted == 3
    assert signal.getsignal(signal.SIGINT) is handler
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
