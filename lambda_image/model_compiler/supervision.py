"""Runs the command in another process, so that no model hangs it or ends it without a line.

A tokenizer's regular expression may take years, a graph may loop for ever, and a library may abort.
A process can neither interrupt nor catch that in itself: the system ends it after the seconds of
CPU that a step may take, and its parent says what happened.
"""

import ctypes
import mmap
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: The signals by which somebody asks a command to end.
_ASKED = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG = 1
#: Memory that the parent shares, with what the process is doing; None without a parent.
_step: mmap.mmap | None = None


def supervised(run: Callable[[], int]) -> int:
    """Run a command in a child process, and return its exit status in both processes.

    No other thread may run yet. After one line on standard error, the status is 2 if a signal ended
    the child.
    """
    global _step  # noqa: PLW0603 -- a process has one parent
    step = mmap.mmap(-1, mmap.PAGESIZE)
    _write(step, "the compiler")
    parent, child = os.getpid(), os.fork()
    if child:
        return _wait(child, step)
    _step = step
    _end_with(parent)
    # A core would be all of the model in a file.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _silence_libraries()
    return run()


@contextmanager
def budget(step: str, *, seconds: int) -> Iterator[None]:
    """Allow the block some CPU time, if this process has a parent that reports its end.

    Args:
        step: What the block does, as in "encoding texts".
        seconds: Of all threads. Time in which other programs run does not count, so that a busy
            machine refuses no other models than an idle one.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    ends = int(used.ru_utime + used.ru_stime) + seconds
    before = resource.getrlimit(resource.RLIMIT_CPU)
    if _step is None or any(limit != resource.RLIM_INFINITY and limit <= ends for limit in before):
        yield
        return
    outer = _read(_step)
    _write(_step, f"{step}, which may take {seconds} s of CPU,")
    resource.setrlimit(resource.RLIMIT_CPU, (ends, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, before)
        _write(_step, outer)


def _wait(child: int, step: mmap.mmap) -> int:
    """Return the child's exit status, or say which signal ended it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to the child, too
    signal.signal(signal.SIGTERM, lambda number, _: os.kill(child, number))
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return code
    if -code in _ASKED:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    reason = "too slow" if -code == signal.SIGXCPU else "damaged, or too large for this machine"
    sys.stderr.write(
        f"error: {_read(step)} was ended by the system ({signal.strsignal(-code)}): the model is "
        f"{reason}.\n"
    )
    return 2


def _read(step: mmap.mmap) -> str:
    return step[:].rstrip(b"\0").decode()


def _write(step: mmap.mmap, text: str) -> None:
    step[:] = text.encode().ljust(len(step), b"\0")


def _end_with(parent: int) -> None:
    """Let the system end this process together with its parent, also if that is killed."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def _silence_libraries() -> None:
    """Leave standard error to Python: lines of other languages are no messages for a user."""
    own = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    os.close(nowhere)
    sys.stderr = open(own, "w", buffering=1, encoding="utf-8", errors="backslashreplace")  # noqa: PTH123, SIM115
