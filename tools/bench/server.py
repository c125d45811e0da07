"""The server under load, next to the same server without merging, and to infinity.

The model is all-MiniLM-L6-v2. --peers installs infinity in .cache; without it, it is left out. The
servers take turns under each load. Short texts have 8 to 20 tokens, mixed ones 4 to 400, of which
the model cuts those over 256.
"""

import argparse
import asyncio
import contextlib
import hashlib
import itertools
import math
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self

import aiohttp
import numpy as np
import orjson

from model_compiler.fidelity import measure as fidelity
from model_compiler.source.find import find_source
from tools.bench.contenders import python_of
from tools.bench.report import CPU, Comparison, ReportRow, middle, turns
from tools.local_endpoint.models import DEFAULT_MODEL, artifact_of
from tools.process import answers, family_of, free_ports, memory_kb, running

EMBEDDINGS = "/v1/embeddings"
_WORDS = Path(fidelity.__file__).with_name("documents.txt").read_text(encoding="utf-8").split()
_COUNT = 4000


@dataclass
class ServerProcess:
    """A server in a separate process: its name in results and in tables, and how it starts.

    Attributes:
        ready: A path that answers 200 as soon as requests are served.
        environment: Variables besides those of this process.
        start_seconds: The time until it was ready.
    """

    name: str
    label: str
    port: int
    ready: str = "/ready"
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    pid: int = 0
    start_seconds: float = 0.0

    @contextlib.contextmanager
    def running(self) -> Iterator[Self]:
        """Run the server until the block ends."""
        began = time.monotonic()
        with running(
            self.command,
            ready=partial(answers, f"http://127.0.0.1:{self.port}{self.ready}"),
            seconds=600,
            environment={**os.environ, **self.environment},
        ) as process:
            self.pid, self.start_seconds = process.pid, time.monotonic() - began
            yield self

    def session(self, key: str = "") -> aiohttp.ClientSession:
        """Return a client with a caller's key. httpx2 would leave the server less to merge."""
        headers = {"content-type": "application/json"}
        headers |= {"authorization": f"Bearer {key}"} if key else {}
        return aiohttp.ClientSession(f"http://127.0.0.1:{self.port}", headers=headers)

    def cpu_seconds(self) -> float:
        """Return the processor time that the process and its children have taken."""
        # The number of a process's clock in Linux, as clock_getcpuclockid(3) returns it.
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in family_of(self.pid))

    def memory_mb(self, kind: str = "VmRSS") -> float:
        """Return the resident memory of the process and its children; `VmHWM` is the highest."""
        return sum(memory_kb(pid, kind) for pid in family_of(self.pid)) / 1000

    def allocated_kb(self) -> float:
        """Return the memory that they have allocated."""
        return sum(map(memory_kb, family_of(self.pid)))


def kit(
    artifact: Path,
    *,
    merged: bool = True,
    truncate: str = "right",
    keys: Sequence[str] = (),
    program: Sequence[str] = ("embedder.server",),
) -> ServerProcess:
    """Return this project's server, or the same one without merging runs of several requests.

    Each of the keys is the name of its caller, too; without any, everyone may call. `program` is
    the module with its first arguments.
    """
    (port,) = free_ports(1)
    flags = [] if keys else ["--no-keys"]
    flags += [] if merged else ["--max-batch-tokens", "1"]
    lines = [f"{key}:{hashlib.sha256(key.encode()).hexdigest()}" for key in keys]
    address = ["--host", "127.0.0.1", "--port", str(port)]
    return ServerProcess(
        name="kit" if merged else _ALONE,
        label="Embedding Kit" if merged else "request by request",
        port=port,
        command=[sys.executable, "-m", *program, *address, *flags],
        environment={
            "EMBEDDING_ARTIFACT": str(artifact),
            "EMBEDDING_CACHE_ENTRIES": "0",
            "EMBEDDING_TRUNCATE": truncate,
            **({"EMBEDDING_SERVER_KEYS": "\n".join(lines)} if keys else {}),
        },
    )


def infinity(folder: Path) -> ServerProcess:
    """Return infinity with a sentence-transformers folder, in torch, as its README starts it."""
    (port,), program = free_ports(1), str(Path(python_of("infinity")).with_name("infinity_emb"))
    return ServerProcess(
        name=_INFINITY,
        label=_INFINITY,
        port=port,
        ready="/health",
        command=[
            *(program, "v2", "--no-trust-remote-code"),
            *("--model-id", str(folder), "--served-model-name", "m", "--url-prefix", "/v1"),
            *("--engine", "torch", "--device", "cpu", "--host", "127.0.0.1", "--port", str(port)),
        ],
        environment={"DO_NOT_TRACK": "1", "HF_HUB_OFFLINE": "1"},
    )


@dataclass
class Sent:
    """Answers to the requests of one load."""

    #: Durations of the answers with status 200, in seconds.
    latencies: list[float] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: float = 0.0
    #: Processor time of the server, in seconds.
    cpu_seconds: float = 0.0

    def quantile(self, part: float) -> float:
        """Return a latency in milliseconds."""
        return 1000 * float(np.quantile(self.latencies, part))

    async def client(
        self,
        server: ServerProcess,
        requests: Iterable[bytes],
        *,
        until: float = math.inf,
        key: str = "",
    ) -> None:
        """Send one request after the other, up to a time of `time.perf_counter`."""
        async with server.session(key) as session:
            for body in requests:
                began = time.perf_counter()
                answer = await session.post(EMBEDDINGS, data=body)
                await answer.read()
                self.statuses[answer.status] += 1
                if answer.ok:
                    self.latencies.append(time.perf_counter() - began)
                else:
                    await asyncio.sleep(0.1)
                if time.perf_counter() >= until:
                    break


def bodies(kind: str, *, texts: int = 1, seed: int = 1) -> list[bytes]:
    """Return different requests; a number in each text keeps caches from answering.

    A `short` text has 8 to 20 tokens; the logarithm of a `mixed` one's 4 to 400 is uniform.
    """
    chosen = random.Random(seed)  # noqa: S311  (texts, not secrets)
    texts_of_kind = [_text(kind, chosen) for _ in range(_COUNT)]
    groups = [texts_of_kind[at : at + texts] for at in range(0, _COUNT - texts + 1, texts)]
    return [
        orjson.dumps({"model": "m", "input": group, "encoding_format": "float"}) for group in groups
    ]


def _text(kind: str, chosen: random.Random) -> str:
    size = chosen.randint(3, 9) if kind == "short" else max(2, round(2 * 150 ** chosen.random()))
    start = chosen.randrange(len(_WORDS) - size)
    return " ".join(_WORDS[start : start + size]) + f" {chosen.randrange(10**6)}"


async def send(
    server: ServerProcess, kind: str, clients: int, *, seconds: float, seed: int
) -> Sent:
    """Send requests for some seconds, and wait for the last; RuntimeError if none got a 200."""
    sent, requests = Sent(), itertools.cycle(bodies(kind, seed=seed))
    began, cpu = time.perf_counter(), server.cpu_seconds()
    await asyncio.gather(
        *(sent.client(server, requests, until=began + seconds) for _ in range(clients))
    )
    sent.seconds = time.perf_counter() - began
    sent.cpu_seconds = server.cpu_seconds() - cpu
    if not sent.latencies:
        raise RuntimeError(f"no request was answered; statuses: {sent.statuses}")
    return sent


_ALONE, _INFINITY = "one by one", "infinity"
#: The kind of the texts, the number of clients at the same time, and the highest accepted ratios
#: to the CPU time of another server.
_LOADS: Sequence[tuple[str, int, Mapping[str, float]]] = [
    ("short", 1, {_INFINITY: 1 / 3.5}),
    ("short", 8, {_INFINITY: 1 / 3.5}),
    ("short", 64, {_INFINITY: 1 / 4, _ALONE: 1 / 1.5}),
    ("mixed", 1, {_INFINITY: 1 / 2.3}),
    ("mixed", 8, {_INFINITY: 1 / 2.5}),
    ("mixed", 64, {_INFINITY: 1 / 2.5}),
]
#: The columns of a load: what is added to its name, the unit, and the value.
_COLUMNS: Sequence[tuple[str, str, Callable[[Sent], float]]] = [
    ("", CPU, lambda sent: 1000 * sent.cpu_seconds / len(sent.latencies)),
    (", requests", "a second", lambda sent: len(sent.latencies) / sent.seconds),
    (", p50", "ms", lambda sent: sent.quantile(0.5)),
    (", p99", "ms", lambda sent: sent.quantile(0.99)),
]


def measure(options: argparse.Namespace) -> Comparison:
    """Measure the servers."""
    artifact, seconds = artifact_of(DEFAULT_MODEL), 0.5 if options.quick else 4.0
    servers = [kit(artifact), kit(artifact, merged=False)]
    if options.peers:
        servers.append(infinity(find_source(DEFAULT_MODEL).folder.path))
    rows: list[ReportRow] = []

    def sent(server: ServerProcess, length: str, clients: int, seeds: Iterator[int]) -> Sent:
        return asyncio.run(send(server, length, clients, seconds=seconds, seed=next(seeds)))

    with contextlib.ExitStack() as stack:
        for server in servers:
            stack.enter_context(server.running())
            sent(server, "mixed", 8, itertools.count(99))
        for length, clients, targets in _LOADS:
            # Each round has other texts, the same for all servers.
            work = {
                server.name: partial(sent, server, length, clients, itertools.count())
                for server in servers
            }
            answers = turns(work, rounds=options.rounds, warm_up=0)
            load = f"{length} texts, {clients} client{'s' if clients > 1 else ''}"
            for suffix, unit, value in _COLUMNS:
                values = {name: list(map(value, results)) for name, results in answers.items()}
                rows.append(
                    ReportRow(f"{load}{suffix}", unit, middle(values), {} if suffix else targets)
                )
        start = {server.name: server.start_seconds for server in servers}
        memory = {server.name: server.memory_mb() for server in servers}
    rows += [
        ReportRow("start to ready", "s", start, {_INFINITY: 1 / 40}),
        ReportRow("memory after the load", "MB", memory, {_INFINITY: 1 / 5}),
    ]
    labels = {server.name: server.label for server in servers}
    base = _INFINITY if options.peers else _ALONE
    return Comparison("The server with all-MiniLM-L6-v2", labels, rows, base=base)
