"""Load on an HTTP server: clients that each send the next request when they have their answer.

Each client is one connection that is kept open, in OpenAI's API. The clients are one loop of
`asyncio` streams, which costs a request a tenth of a millisecond.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import orjson

__all__ = ["Connection", "Load", "Sent", "bodies", "send"]

_WORDS = (
    (Path(__file__).parents[3] / "lambda_image/model_compiler/fidelity/documents.txt")
    .read_text(encoding="utf-8")
    .split()
)
_COUNT = 4000


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
    statuses: dict[int, int] = field(default_factory=dict)
    seconds: float = 0.0

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


async def send(url: str, load: Load, *, seconds: float, seed: int) -> Sent:
    """Send requests for some seconds; those under way at the end are waited for."""
    sent = Sent()
    requests = itertools.cycle(bodies(load.kind, texts=load.texts, seed=seed))
    began = time.perf_counter()
    await asyncio.gather(
        *[_client(url, requests, began + seconds, sent) for _ in range(load.clients)]
    )
    sent.seconds = time.perf_counter() - began
    return sent


async def _client(url: str, requests: Iterator[bytes], until: float, sent: Sent) -> None:
    path = urlsplit(url).path
    async with Connection(url) as connection:
        for body in requests:
            began = time.perf_counter()
            status, _ = await connection.exchange("POST", path, body)
            sent.statuses[status] = sent.statuses.get(status, 0) + 1
            if status == 200:
                sent.latencies.append(time.perf_counter() - began)
            if time.perf_counter() >= until:
                break


class Connection:
    """A connection that is kept open.

    Args:
        url: The server's address; its path does not matter.
        key: The API key.
    """

    def __init__(self, url: str, key: str = "") -> None:
        self._parts = urlsplit(url)
        self._key = key

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(
            self._parts.hostname, self._parts.port
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send a request; return the status and the body of its answer."""
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {self._parts.netloc}\r\n"
            f"authorization: Bearer {self._key}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = _value(answer.split(b"\r\n"), b"content-length")
        if length is None:
            raise ValueError("a response without content-length")
        return int(answer[9:12]), await self._reader.readexactly(int(length))


def _value(lines: Sequence[bytes], name: bytes) -> bytes | None:
    return next((line.partition(b":")[2] for line in lines if line.startswith(name + b":")), None)
