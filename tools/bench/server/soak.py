"""Send a hundred thousand mixed requests to the server, many at the same time.

`python -m tools.bench.server.soak ARTIFACT [--requests N] [--clients 16]` sends the requests of
`tools.bench.soak`: all APIs, short and long, single and in batches, repeated and new, valid and
invalid; one that is refused with 429 is sent again. It fails if a response has an unexpected
status, if one of a sample of requests gets another answer when it is sent again, or if the
allocated memory of the process grows: the last tenth of the run may use 2% more than the second
tenth. No cache of vectors is used: the sample is computed again.

Meanwhile other callers send requests, each with a key of its own: `greedy` lists of a thousand
texts, and the next at once when one is refused; `hostile` uploads that stop, and heads without an
end; `single` one short text after the other; `run` a text that fills a run, now and then. The soak
also fails if a text of `single` is refused, if its p99 is longer than three runs of 256 tokens, or
if the process ever uses 200 MB.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from tqdm import tqdm

from tools.bench.server.callers import CALLERS, Beside
from tools.bench.server.load import Connection
from tools.bench.server.servers import Server, free_port, kit
from tools.bench.soak import EVERY, Case, cases, report

__all__ = ["Soak", "main", "soak"]

#: One of so many requests is sent again.
_SAMPLED = 50
#: Parts of an answer that differ from time to time.
_VARYING = ("timings", "request_id")
#: The name of the soak's own caller, and its key.
_MIXED = "mixed"
_MOST_RUNS = 3.0
_MOST_MB = 200.0


@dataclass
class Soak:
    """What came back."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    #: Allocated memory in kB, every hundred requests.
    memory: list[int] = field(default_factory=list)
    #: Requests with their answers.
    sample: list[tuple[Case, bytes]] = field(default_factory=list)
    count: int = 0
    #: Requests that were answered with 429, and sent again.
    refused: int = 0

    def add(self, case: Case, status: int, answer: bytes) -> None:
        """Compare an answer with what is expected."""
        self.count += 1
        self.statuses[status] += 1
        if status != case[3]:
            self.wrong.append(
                f"{case[0]} {case[1]}: {status}, expected {case[3]}: {answer[:200]!r}"
            )
        if self.count % _SAMPLED == 0:
            self.sample.append((case, answer))


def main() -> None:
    """Run the requests and report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("artifact", type=Path, help="the folder of a compiled model")
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    keys = (_MIXED, *CALLERS)
    server = kit(options.artifact, port=free_port(), merged=True, keys=keys)
    began = time.monotonic()
    with Server(
        server.name,
        server.label,
        server.command,
        server.port,
        "/ready",
        {**server.environment, "EMBEDDING_TRUNCATE": "refuse"},
    ) as one:
        beside = Beside(one)
        requests = cases(options.requests, options.seed)
        with tqdm(requests, total=options.requests, unit=" requests", mininterval=1) as shown:
            result = asyncio.run(_beside(beside, one, iter(shown), options.clients))
    seconds = time.monotonic() - began
    print(f"refused with 429, and sent again: {result.refused}")
    missed = _report(beside)
    report(options.requests, result.statuses, result.wrong, result.memory, seconds)
    print(f"sent again one by one: {len(result.sample)} requests, all with the same answer")
    if missed:
        sys.exit(f"error: {', '.join(missed)}")


def _report(beside: Beside) -> list[str]:
    """Print what became of the other callers; return what is out of bounds."""
    single, run = beside.single, 1000 * statistics.median(beside.runs)
    p50, p99 = single.quantile(0.5), single.quantile(0.99)
    print(f"greedy, lists by status: {dict(beside.lists)}")
    print(f"hostile, by status: uploads {dict(beside.uploads)}, heads {dict(beside.heads)}")
    print(
        f"single: {len(single.latencies)} texts, {single.statuses}; p50 {p50:.0f} ms, p99 "
        f"{p99:.0f} ms; a run of 256 tokens takes {run:.0f} ms: {p99 / run:.2f} runs"
    )
    print(f"highest memory: {beside.most_mb:.0f} MB")
    return [
        *(["texts of single were refused"] if set(single.statuses) != {200} else []),
        *([f"the p99 is {p99 / run:.2f} runs"] if p99 > _MOST_RUNS * run else []),
        *([f"{beside.most_mb:.0f} MB were used"] if beside.most_mb > _MOST_MB else []),
    ]


async def _beside(beside: Beside, server: Server, requests: Iterator[Case], clients: int) -> Soak:
    async with beside.sending():
        return await soak(server, requests, clients=clients)


async def soak(server: Server, requests: Iterator[Case], *, clients: int) -> Soak:
    """Send requests from some clients at the same time, then a sample of them again, one by one."""
    result = Soak()
    await asyncio.gather(*[_client(server, requests, result) for _ in range(clients)])
    async with Connection(server.url, _MIXED) as connection:
        for case, answer in result.sample:
            _, again = await connection.exchange(case[0], case[1], _body(case[2]))
            if _fixed(again) != _fixed(answer):
                result.wrong.append(f"{case[0]} {case[1]} has another answer when it is alone")
    return result


async def _client(server: Server, requests: Iterator[Case], result: Soak) -> None:
    async with Connection(server.url, _MIXED) as connection:
        for case in requests:
            status, answer = await connection.exchange(case[0], case[1], _body(case[2]))
            # Sixteen clients are more than an equal part where the machine is slow.
            while status == 429:
                result.refused += 1
                await asyncio.sleep(1)
                status, answer = await connection.exchange(case[0], case[1], _body(case[2]))
            result.add(case, status, answer)
            if result.count % EVERY == 0:
                result.memory.append(round(server.allocated_kb()))


def _body(body: Any) -> bytes:
    """Return a body as bytes: a string as it is, anything else as JSON."""
    if body is None:
        return b""
    return body.encode() if isinstance(body, str) else orjson.dumps(body)


def _fixed(answer: bytes) -> Any:
    value = orjson.loads(answer)
    if isinstance(value, dict):
        return {name: part for name, part in value.items() if name not in _VARYING}
    return value


if __name__ == "__main__":
    main()
