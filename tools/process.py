"""Run programs until a block ends; read their memory, and find free ports."""

import contextlib
import re
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import httpx2


@contextlib.contextmanager
def running(
    command: Sequence[str],
    *,
    ready: Callable[[], bool],
    seconds: float,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    failure: Callable[[str], Exception] = RuntimeError,
    seconds_to_stop: float = 30,
    log: Path | None = None,
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program until the block ends; the block begins when the program is ready.

    One that ends or is not ready after some seconds is a `failure`, with the end of its output. The
    `log` keeps all of it. One that takes longer than `seconds_to_stop` to end is killed.
    """
    with log.open("w+b") if log else tempfile.TemporaryFile() as written:
        process = subprocess.Popen(  # noqa: S603 - the caller's own program
            command,
            env=environment,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
        try:
            end = time.monotonic() + seconds
            while not ready():
                if process.poll() is not None or time.monotonic() > end:
                    written.seek(0)
                    printed = written.read()[-3000:].decode(errors="replace")
                    raise failure(f"{Path(command[0]).name} did not start:\n{printed}")
                time.sleep(0.05)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(seconds_to_stop)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def answers(url: str) -> bool:
    """Return whether a URL of this machine answers with success."""
    with contextlib.suppress(httpx2.HTTPError):
        return httpx2.get(url, timeout=2, trust_env=False).is_success
    return False


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nothing listens at."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [int(bound.getsockname()[1]) for bound in sockets]


def family_of(pid: int) -> list[int]:
    """Return a process and those that descend from it."""
    pids = [pid]
    for ancestor in pids:
        for path in Path(f"/proc/{ancestor}/task").glob("*/children"):
            pids += [int(child) for child in path.read_text("ascii").split()]
    return pids


def memory_kb(pid: int, kind: str = "RssAnon") -> float:
    """Return a process's memory; by default without pages of files, which come and go."""
    status = Path(f"/proc/{pid}/status").read_text("ascii", errors="replace")
    match = re.search(rf"^{kind}:\s*(\d+) kB$", status, re.MULTILINE)
    return float(match[1]) if match else 0.0
