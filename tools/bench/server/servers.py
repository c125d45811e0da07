"""The servers that are measured: how each is started, and what the system says of its process."""

import hashlib
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

__all__ = ["Server", "free_port", "infinity", "kit"]

_TICK = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 600.0


@dataclass
class Server:
    """A server in a process of its own.

    `ready` is a path that answers 200 as soon as requests are served.
    """

    name: str
    label: str
    command: Sequence[str]
    port: int
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict)
    #: Of the start: seconds until it was ready, and seconds of processor time.
    start_seconds: float = 0.0
    start_cpu_seconds: float = 0.0
    _process: "subprocess.Popen[bytes] | None" = None

    @property
    def url(self) -> str:
        """Where it answers OpenAI's API."""
        return f"http://127.0.0.1:{self.port}/v1/embeddings"

    def __enter__(self) -> Self:
        began = time.monotonic()
        with tempfile.TemporaryFile() as log:
            self._process = subprocess.Popen(  # noqa: S603  (programs of the benchmark)
                self.command,
                env={**os.environ, **self.environment},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
            self._wait(began, log)
        self.start_seconds = time.monotonic() - began
        self.start_cpu_seconds = self.cpu_seconds()
        return self

    def _wait(self, began: float, log: IO[bytes]) -> None:
        process = self._process
        while process is not None and not self._is_ready():
            if process.poll() is not None:
                log.seek(0)
                raise RuntimeError(
                    f"{self.label} ended with {process.returncode}: {log.read()[-2000:].decode()}"
                )
            if time.monotonic() - began > _START_SECONDS:
                process.kill()
                raise RuntimeError(f"{self.label} was not ready after {_START_SECONDS:.0f} s")
            time.sleep(0.05)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def cpu_seconds(self) -> float:
        """Return the processor time that the process and its children have taken."""
        return sum(_cpu_seconds(pid) for pid in self._pids())

    def memory_mb(self) -> float:
        """Return the resident memory of the process and its children."""
        return sum(_status_kb(pid, "VmRSS") for pid in self._pids()) / 1000

    def allocated_kb(self) -> float:
        """Return the memory that they have allocated: without files, whose pages come and go."""
        return sum(_status_kb(pid, "RssAnon") for pid in self._pids())

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{self.ready}", timeout=1):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _pids(self) -> list[int]:
        if self._process is None:
            return []
        found = [self._process.pid]
        for pid in found:
            path = Path(f"/proc/{pid}/task/{pid}/children")
            found += [int(child) for child in path.read_text("ascii").split()]
        return found


def free_port() -> int:
    """Return a port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def kit(artifact: Path, *, port: int, merged: bool, keys: Sequence[str] = ()) -> Server:
    """Return this project's server, or the same one without merging runs of several requests.

    Each of the keys is the name of its caller, too; without any, everyone may call.
    """
    flags = [] if merged else ["--max-batch-tokens", "1"]
    flags += [] if keys else ["--no-keys"]
    lines = [f"{key}:{hashlib.sha256(key.encode()).hexdigest()}" for key in keys]
    address = ["--host", "127.0.0.1", "--port", str(port), "--drain-accept", "0"]
    return Server(
        name="kit" if merged else "one by one",
        label="Embedding Kit" if merged else "Embedding Kit, request by request",
        command=[sys.executable, "-m", "embedder.server", *address, *flags],
        port=port,
        ready="/ready",
        environment={
            "EMBEDDING_ARTIFACT": str(artifact),
            "EMBEDDING_CACHE_ENTRIES": "0",
            "EMBEDDING_TRUNCATE": "right",
            **({"EMBEDDING_SERVER_KEYS": "\n".join(lines)} if keys else {}),
        },
    )


def infinity(python: str, folder: Path, *, port: int) -> Server:
    """Return infinity with a sentence-transformers folder, in torch, as its README starts it."""
    return Server(
        name="infinity",
        label="infinity",
        command=[
            *(str(Path(python).with_name("infinity_emb")), "v2"),
            *("--model-id", str(folder), "--served-model-name", "m"),
            *("--engine", "torch", "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)),
            *("--url-prefix", "/v1", "--no-trust-remote-code"),
        ],
        port=port,
        ready="/health",
        environment={
            "INFINITY_ANONYMOUS_USAGE_STATS": "0",
            "DO_NOT_TRACK": "1",
            "HF_HUB_OFFLINE": "1",
        },
    )


def _cpu_seconds(pid: int) -> float:
    fields = (
        Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
    )
    return (int(fields[11]) + int(fields[12])) / _TICK


def _status_kb(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text("ascii", errors="replace").splitlines():
        if line.startswith(f"{name}:"):
            return float(line.split()[1])
    return 0.0
