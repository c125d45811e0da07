"""The shared parts of jobs on this machine: a missing package, and Ctrl-C while a pool starts."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jobs.command import run_all

SOURCE_ROOT = Path(__file__).parents[2] / "lambda_image"
OPTIONS = {
    "jobs.embed": '{"settings": {}, "artifact": "artifact", "processes": 1}',
    "jobs.load": '{"settings": {}}',
}


@pytest.mark.parametrize("module", OPTIONS)
def test_a_missing_package_is_an_error_that_names_the_extra(module):
    """Without any package, the error is one line."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", module, OPTIONS[module]],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE_ROOT)},
    )
    assert (done.returncode, done.stdout) == (1, "")
    name, found, rest = done.stderr.partition(" is missing: ")
    assert (found, rest) == (" is missing: ", "pip install 'embedding-kit[batch]'.\n")
    assert name.removeprefix("error: ") in {"botocore", "numpy", "orjson"}


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
