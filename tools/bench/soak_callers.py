"""Callers besides the soak's own: a greedy one, a hostile one, and one that must not feel them.

Each has a key. `greedy` sends lists of a thousand texts, and the next when one is refused;
`hostile` sends uploads that stop and heads without an end; `single` sends one short text after the
other; `run` sends a text that fills a run, now and then.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import cycle

import orjson

from tools.bench.serving import Connection, Sent, Server, bodies

#: The names of the callers, which are their keys, too.
CALLERS = GREEDY, HOSTILE, SINGLE, RUN = "greedy", "hostile", "single", "run"
#: At the same time: lists of a thousand texts, and single texts.
_LISTS, _TEXTS = 3, 2
_PATH = "/v1/embeddings"
#: Bytes that are sent of uploads that stop. Half of them stop at the beginning.
_UPLOAD = b'{"inputs": ["' + b"x" * 450_000
_UPLOADS = [b"{", _UPLOAD] * 16
#: What is repeated after the beginning of a request that has no end, and needs no key.
_ENDLESS = [
    (b"GET /", b"x" * 65536),
    (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 10_000),
    (b"GET / HTTP/1.1\r\na: ", b"x" * 65536),
    (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n" * 10_000),
    (b"", b"GET / HTTP/1.1\r\n\r\n" * 4000),
]
_LARGEST = 60_000_000


@dataclass
class OtherCallers:
    """What came back."""

    server: Server
    lists: Counter[int] = field(default_factory=Counter)
    uploads: Counter[int] = field(default_factory=Counter)
    heads: Counter[int] = field(default_factory=Counter)
    single: Sent = field(default_factory=Sent)
    #: Of runs of 256 tokens, without their time in the queue.
    runs: list[float] = field(default_factory=list)
    most_mb: float = 0.0

    @contextlib.asynccontextmanager
    async def sending(self) -> AsyncIterator[None]:
        """Send requests until the end of the context."""
        async with asyncio.TaskGroup() as group:
            tasks = [
                *[group.create_task(self._greedy()) for _ in range(_LISTS)],
                *[group.create_task(self._upload(upload)) for upload in _UPLOADS],
                *[group.create_task(self._head(*head)) for head in _ENDLESS],
                *[group.create_task(self._single(seed)) for seed in range(_TEXTS)],
                group.create_task(self._run()),
            ]
            yield
            for task in tasks:
                task.cancel()

    async def _greedy(self) -> None:
        """Send lists, and the next one at once when one is refused."""
        async with Connection(self.server.port, GREEDY) as connection:
            for body in cycle(bodies("short", texts=1000)):
                status, _ = await connection.exchange("POST", _PATH, body)
                self.lists[status] += 1
                self.most_mb = max(self.most_mb, self.server.memory_mb())
                if status != 200:
                    await asyncio.sleep(0.1)

    async def _single(self, seed: int) -> None:
        """Send one short text after the other, and measure how long each takes."""
        async with Connection(self.server.port, SINGLE) as connection:
            for body in cycle(bodies("short", seed=seed)):
                began = time.perf_counter()
                status, _ = await connection.exchange("POST", _PATH, body)
                self.single.latencies.append(time.perf_counter() - began)
                self.single.statuses[status] += 1

    async def _run(self) -> None:
        """Send a text that fills a run now and then, for the time that the model takes for it."""
        async with Connection(self.server.port, RUN) as connection:
            for body in cycle(bodies("run")):
                text = {"inputs": orjson.loads(body)["input"], "truncate": True}
                status, answer = await connection.exchange(
                    "POST", "/api/v1/embed", orjson.dumps(text)
                )
                if status == 200:
                    self.runs.append(_seconds(orjson.loads(answer)["timings"]["inference"]))
                await asyncio.sleep(0.3)

    async def _upload(self, body: bytes) -> None:
        """Begin an upload of 500 kB, and wait until the server gives it up."""
        head = f"POST /embed HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {HOSTILE}\r\n"
        while True:
            self.uploads[
                await self._attack(f"{head}content-length: 500000\r\n\r\n".encode(), body)
            ] += 1

    async def _head(self, begin: bytes, repeated: bytes) -> None:
        """Send a head without an end for as long as the server takes it."""
        while True:
            parts = [repeated] * (_LARGEST // len(repeated))
            self.heads[await self._attack(begin, *parts)] += 1

    async def _attack(self, *parts: bytes) -> int:
        """Send data until the server answers or closes; return the status, 0 without one."""
        answer = b""
        with contextlib.suppress(ConnectionError):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
            reading = asyncio.create_task(reader.read(1000))
            try:
                for part in parts:
                    writer.write(part)
                    await writer.drain()
                    if reading.done():
                        break
                answer = await reading
            finally:
                reading.cancel()
                writer.transport.abort()
        await asyncio.sleep(0.5)
        return int(answer[9:12] or 0)


def _seconds(duration: str) -> float:
    """Parse a time that is written as Rust writes it."""
    unit, factor = next(
        one for one in (("ms", 1e-3), ("µs", 1e-6), ("s", 1)) if duration.endswith(one[0])
    )
    return float(duration.removesuffix(unit)) * factor
