"""Measures the servers in turns, so that what else runs on the machine slows each of them alike."""

import asyncio
import itertools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from embedder.server.cpu_count import available_cores
from tools.bench.server.load import Load, Sent, send
from tools.bench.server.servers import Server

__all__ = ["LOADS", "Cell", "Fairness", "fairness", "measure"]

LOADS = tuple(Load(kind, clients) for kind in ("short", "mixed") for clients in (1, 8, 64))
#: Beside each other: clients of single texts, and clients of lists.
_SINGLES, _LISTS, _LIST = 4, 3, 256
#: Clients of texts that fill a run each.
_RUNS = available_cores()


@dataclass
class Cell:
    """One server under one load, over all rounds."""

    cpu_ms: list[float] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    #: Answers with another status than 200.
    failed: int = 0

    def add(self, sent: Sent, cpu_seconds: float) -> None:
        """Add a round."""
        count = len(sent.latencies)
        if not count:
            raise RuntimeError(f"no request was answered; statuses: {sent.statuses}")
        self.failed += sum(sent.statuses.values()) - count
        self.cpu_ms.append(1000 * cpu_seconds / count)
        self.per_second.append(count / sent.seconds)
        self.p50_ms.append(sent.quantile(0.5))
        self.p99_ms.append(sent.quantile(0.99))


@dataclass(frozen=True)
class Fairness:
    """Single texts beside lists, and a run alone, in milliseconds."""

    p50_ms: float
    p99_ms: float
    run_ms: float
    singles: int
    lists: int


def measure(
    servers: Sequence[Server], *, rounds: int, seconds: float, note: Callable[[str], None]
) -> dict[tuple[str, Load], Cell]:
    """Send each load to each server, in rounds; the first seconds of a server are not counted."""
    cells = {(server.name, load): Cell() for server in servers for load in LOADS}
    for server in servers:
        asyncio.run(send(server.url, Load("mixed", 8), seconds=seconds, seed=99))
    seeds = itertools.count()
    for number in range(rounds):
        for load in LOADS:
            seed = next(seeds)
            for server in _turned(servers, seed):
                before = server.cpu_seconds()
                sent = asyncio.run(send(server.url, load, seconds=seconds, seed=seed))
                cell = cells[server.name, load]
                cell.add(sent, server.cpu_seconds() - before)
                note(
                    f"round {number + 1}: {load.kind}, {load.clients} clients, {server.label}: "
                    f"{cell.cpu_ms[-1]:.2f} ms of CPU time a request"
                )
    return cells


def fairness(server: Server, *, seconds: float) -> Fairness:
    """Send single texts beside lists of 256; before and after, runs of 256 tokens.

    As many of those at once as there are workers: a core of its own, which a run beside others does
    not have, would make it look faster.
    """
    runs = asyncio.run(send(server.url, Load("run", _RUNS), seconds=seconds / 2, seed=1))
    singles, lists = asyncio.run(_beside(server, seconds))
    more = asyncio.run(send(server.url, Load("run", _RUNS), seconds=seconds / 2, seed=3))
    return Fairness(
        p50_ms=singles.quantile(0.5),
        p99_ms=singles.quantile(0.99),
        run_ms=1000 * statistics.median([*runs.latencies, *more.latencies]),
        singles=len(singles.latencies),
        lists=len(lists.latencies),
    )


async def _beside(server: Server, seconds: float) -> tuple[Sent, Sent]:
    lists = asyncio.create_task(
        send(server.url, Load("short", _LISTS, _LIST), seconds=seconds, seed=1)
    )
    singles = await send(server.url, Load("short", _SINGLES), seconds=seconds, seed=2)
    return singles, await lists


def _turned(servers: Sequence[Server], by: int) -> list[Server]:
    """Return the servers in another order each time."""
    start = by % len(servers)
    return [*servers[start:], *servers[:start]]
