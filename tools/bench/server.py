"""The server under load, next to the same server without merging, and to infinity.

The model is all-MiniLM-L6-v2. --peers is an interpreter with infinity-emb[server,torch]; without
it, infinity is left out. The servers take turns under each load. Short texts have 8 to 20 tokens,
mixed ones 4 to 400, of which the model cuts those over 256.
"""

import argparse
import asyncio
import hashlib
import itertools
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import httpx
import orjson

from model_compiler.fidelity import measure as fidelity
from model_compiler.source.find import find_source
from tools.bench.run import CPU, Row, Run, middle, turns
from tools.local_endpoint.models import DEFAULT_MODEL, artifact_of
from tools.local_endpoint.runtime import free_ports, stop

_WORDS = Path(fidelity.__file__).with_name("documents.txt").read_text(encoding="utf-8").split()
_COUNT = 4000
_TICK = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 600.0


@dataclass
class Server:
    """A server in a separate process: its name in results and in tables, and how it starts.

    Attributes:
        ready: A path that answers 200 as soon as requests are served.
        environment: Variables besides those of this process.
        start_seconds: The time until it was ready.
    """

    name: str
    label: str
    command: Sequence[str]
    port: int
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict)
    start_seconds: float = 0.0
    _process: "subprocess.Popen[bytes] | None" = None

    def __enter__(self) -> Self:
        began = time.monotonic()
        with tempfile.TemporaryFile() as log:
            process = subprocess.Popen(  # noqa: S603  (programs of the benchmark)
                self.command,
                env={**os.environ, **self.environment},
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
            self._process = process
            while not self._is_ready():
                late = time.monotonic() - began > _START_SECONDS
                if late or process.poll() is not None:
                    process.kill()
                    log.seek(0)
                    why = "was late" if late else f"ended with {process.returncode}"
                    raise RuntimeError(f"{self.label} {why}: {log.read()[-2000:].decode()}")
                time.sleep(0.05)
        self.start_seconds = time.monotonic() - began
        return self

    def __exit__(self, *_: object) -> None:
        if self._process:
            stop(self._process, seconds=30)

    def cpu_seconds(self) -> float:
        """Return the processor time that the process and its children have taken."""
        stats = (_read(pid, "stat").rpartition(")")[2].split() for pid in self._pids())
        return sum(int(user) + int(system) for *_, user, system in (s[:13] for s in stats)) / _TICK

    def memory_mb(self) -> float:
        """Return the resident memory of the process and its children."""
        return sum(_status_kb(pid, "VmRSS") for pid in self._pids()) / 1000

    def allocated_kb(self) -> float:
        """Return the memory that they have allocated."""
        return sum(allocated_kb(pid) for pid in self._pids())

    def _is_ready(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self.port}{self.ready}"
            return httpx.get(url, timeout=1, trust_env=False).is_success
        except httpx.HTTPError:
            return False

    def _pids(self) -> list[int]:
        return [] if self._process is None else family_of(self._process.pid)


def family_of(pid: int) -> list[int]:
    """Return a process and those that descend from it."""
    found = [pid]
    for one in found:
        for path in Path(f"/proc/{one}/task").glob("*/children"):
            found += [int(child) for child in path.read_text("ascii").split()]
    return found


def allocated_kb(pid: int) -> float:
    """Return the memory that a process has allocated: without files: their pages come and go."""
    return _status_kb(pid, "RssAnon")


def _status_kb(pid: int, name: str) -> float:
    found = re.search(rf"^{name}:\s*(\d+) kB$", _read(pid, "status"), re.MULTILINE)
    return float(found[1]) if found else 0.0


def _read(pid: int, file: str) -> str:
    return Path(f"/proc/{pid}/{file}").read_text("ascii", errors="replace")


def kit(
    artifact: Path, *, merged: bool = True, truncate: str = "right", keys: Sequence[str] = ()
) -> Server:
    """Return this project's server, or the same one without merging runs of several requests.

    Each of the keys is the name of its caller, too; without any, everyone may call.
    """
    (port,) = free_ports(1)
    flags = [] if keys else ["--no-keys"]
    flags += [] if merged else ["--max-batch-tokens", "1"]
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
            "EMBEDDING_TRUNCATE": truncate,
            **({"EMBEDDING_SERVER_KEYS": "\n".join(lines)} if keys else {}),
        },
    )


def infinity(python: str, folder: Path) -> Server:
    """Return infinity with a sentence-transformers folder, in torch, as its README starts it."""
    (port,) = free_ports(1)
    return Server(
        name="infinity",
        label="infinity",
        command=[
            *(str(Path(python).with_name("infinity_emb")), "v2", "--no-trust-remote-code"),
            *("--model-id", str(folder), "--served-model-name", "m", "--url-prefix", "/v1"),
            *("--engine", "torch", "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)),
        ],
        port=port,
        ready="/health",
        environment={"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"},
    )


@dataclass(frozen=True)
class Load:
    """What is sent."""

    #: short: 8 to 20 tokens. mixed: the logarithm of the length is uniform, 4 to 400 tokens.
    #: run: a text of at least the model's 256 tokens, which cuts it.
    kind: str
    #: Clients at the same time.
    clients: int
    #: Texts in one request.
    texts: int = 1


@dataclass
class Sent:
    """What came back."""

    #: Of the answers with status 200, in seconds.
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    #: Of the server.
    cpu_seconds: float = 0.0

    def quantile(self, part: float) -> float:
        """Return a latency in milliseconds."""
        ordered = sorted(self.latencies)
        return 1000 * ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def bodies(kind: str, *, texts: int = 1, seed: int = 1) -> list[bytes]:
    """Return different requests; a number in each text keeps caches from answering."""
    chosen = random.Random(seed)  # noqa: S311  (texts, not secrets)
    made = [_text(kind, chosen) for _ in range(_COUNT)]
    groups = [made[at : at + texts] for at in range(0, _COUNT - texts + 1, texts)]
    return [
        orjson.dumps({"model": "m", "input": group, "encoding_format": "float"}) for group in groups
    ]


def _text(kind: str, chosen: random.Random) -> str:
    if kind == "short":
        size = chosen.randint(3, 9)
    elif kind == "run":
        size = 300
    else:
        size = max(2, round(2 * 150 ** chosen.random()))
    start = chosen.randrange(len(_WORDS) - size)
    return " ".join(_WORDS[start : start + size]) + f" {chosen.randrange(10**6)}"


async def send(server: Server, load: Load, *, seconds: float, seed: int) -> Sent:
    """Send requests for some seconds; those under way at the end are waited for.

    Raises:
        RuntimeError: No request was answered with status 200.
    """
    sent = Sent()
    requests = itertools.cycle(bodies(load.kind, texts=load.texts, seed=seed))
    began, cpu = time.perf_counter(), server.cpu_seconds()
    clients = [_client(server.port, requests, began + seconds, sent) for _ in range(load.clients)]
    await asyncio.gather(*clients)
    sent.seconds = time.perf_counter() - began
    sent.cpu_seconds = server.cpu_seconds() - cpu
    if not sent.latencies:
        raise RuntimeError(f"no request was answered; statuses: {sent.statuses}")
    return sent


class Connection:
    """A connection to a port of this machine that is kept open.

    A request costs a tenth of a millisecond: a slower client would leave the server less to merge.
    """

    def __init__(self, port: int, key: str = "") -> None:
        self._port = port
        self._headers = "host: 127.0.0.1\r\ncontent-type: application/json\r\n"
        self._headers += f"authorization: Bearer {key}\r\n" if key else ""

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; return the status and the body of its answer."""
        head = f"{method} {path} HTTP/1.1\r\n{self._headers}"
        self._writer.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(answer.partition(b"\r\ncontent-length:")[2].partition(b"\r\n")[0])
        return int(answer[9:12]), await self._reader.readexactly(length)


async def _client(port: int, requests: Iterator[bytes], until: float, sent: Sent) -> None:
    async with Connection(port) as connection:
        for body in requests:
            began = time.perf_counter()
            status, _ = await connection.exchange("POST", "/v1/embeddings", body)
            sent.statuses[status] += 1
            if status == 200:
                sent.latencies.append(time.perf_counter() - began)
            if time.perf_counter() >= until:
                break


_ALONE, _INFINITY = "one by one", "infinity"
#: Each load, and the highest accepted ratio to the CPU time of infinity.
LOADS: Mapping[Load, float] = {
    Load("short", 1): 1 / 3.5,
    Load("short", 8): 1 / 3.5,
    Load("short", 64): 1 / 4,
    Load("mixed", 1): 1 / 2.3,
    Load("mixed", 8): 1 / 2.5,
    Load("mixed", 64): 1 / 2.5,
}
#: The highest accepted ratio to the CPU time without merging, for the load that it is for.
_MERGED = {Load("short", 64): 1 / 1.5}
#: The highest accepted ratios to infinity.
_START, _MEMORY = 1 / 40, 1 / 5


def measure(options: argparse.Namespace) -> Run:
    """Measure the servers."""
    artifact, seconds = artifact_of(DEFAULT_MODEL), 0.5 if options.quick else 4.0
    servers = [kit(artifact), kit(artifact, merged=False)]
    if options.peers:
        servers.append(infinity(options.peers, find_source(DEFAULT_MODEL).folder))
    with ExitStack() as running:
        for server in servers:
            running.enter_context(server)
            asyncio.run(send(server, Load("mixed", 8), seconds=seconds, seed=99))
        rows = under_load(servers, rounds=options.rounds, seconds=seconds)
        start = {server.name: server.start_seconds for server in servers}
        memory = {server.name: server.memory_mb() for server in servers}
    rows += [
        Row("start to ready", "s", start, {_INFINITY: _START}),
        Row("memory after the load", "MB", memory, {_INFINITY: _MEMORY}),
    ]
    labels = {server.name: server.label for server in servers}
    base = _INFINITY if options.peers else _ALONE
    return Run("The server with all-MiniLM-L6-v2", labels, rows, base=base)


def under_load(servers: Sequence[Server], *, rounds: int, seconds: float) -> list[Row]:
    """Send each load to each server in turns; return four rows of each load."""
    found: list[Row] = []
    for load, target in LOADS.items():
        # Each round has other texts, the same for all servers.
        def measure(server: Server, load: Load, seeds: "itertools.count[int]") -> Sent:
            return asyncio.run(send(server, load, seconds=seconds, seed=next(seeds)))

        work = {one.name: partial(measure, one, load, itertools.count()) for one in servers}
        sent = turns(work, rounds=rounds, warm_up=0)
        name = f"{load.kind} texts, {load.clients} client{'s' if load.clients > 1 else ''}"
        targets = {_INFINITY: target} | ({_ALONE: _MERGED[load]} if load in _MERGED else {})
        columns: list[tuple[str, str, Callable[[Sent], float]]] = [
            ("", CPU, lambda one: 1000 * one.cpu_seconds / len(one.latencies)),
            (", requests", "a second", lambda one: len(one.latencies) / one.seconds),
            (", p50", "ms", lambda one: one.quantile(0.5)),
            (", p99", "ms", lambda one: one.quantile(0.99)),
        ]
        for what, unit, value in columns:
            values = {server: [value(one) for one in all_of] for server, all_of in sent.items()}
            found.append(Row(name + what, unit, middle(values), {} if what else targets))
    return found
