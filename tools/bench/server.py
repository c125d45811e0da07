"""The server under load, next to the same server without merging, and to infinity.

The model is all-MiniLM-L6-v2. --peers is an interpreter with infinity-emb[server,torch]; without
it, infinity is left out. The servers take turns under each load. Short texts have 8 to 20 tokens,
mixed ones 4 to 400, of which the model cuts those over 256.
"""

import argparse
import asyncio
import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from model_compiler.source.find import find_source
from tools.bench.run import Row, Run, middle, turns
from tools.bench.serving import Load, Sent, Server, infinity, kit, send
from tools.local_endpoint.models import DEFAULT_MODEL, artifact_of

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


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the subject's options."""
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="for each load (default: %(default)s)"
    )


def measure(options: argparse.Namespace) -> Run:
    """Measure the servers."""
    artifact = artifact_of(DEFAULT_MODEL)
    servers = [kit(artifact), kit(artifact, merged=False)]
    if options.peers:
        servers.append(infinity(options.peers, find_source(DEFAULT_MODEL).folder))
    with ExitStack() as running:
        for server in servers:
            running.enter_context(server)
            asyncio.run(send(server, Load("mixed", 8), seconds=options.seconds, seed=99))
        rows = under_load(servers, rounds=options.rounds, seconds=options.seconds)
        start = {server.name: server.start_seconds for server in servers}
        cpu = {server.name: server.start_cpu_seconds for server in servers}
        memory = {server.name: server.memory_mb() for server in servers}
    rows += [
        Row("start to ready", "s", start, {_INFINITY: _START}),
        Row("start", "s of CPU time", cpu),
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
        work = {
            server.name: partial(_sent, server, load, seconds, itertools.count())
            for server in servers
        }
        sent = turns(work, rounds=rounds, warm_up=0)
        name = f"{load.kind} texts, {load.clients} client{'s' if load.clients > 1 else ''}"
        merged = _MERGED.get(load)
        targets = {_INFINITY: target, **({_ALONE: merged} if merged else {})}
        columns: list[tuple[str, str, Callable[[Sent], float]]] = [
            ("", "ms of CPU time", lambda one: 1000 * one.cpu_seconds / len(one.latencies)),
            (", requests", "a second", lambda one: len(one.latencies) / one.seconds),
            (", p50", "ms", lambda one: one.quantile(0.5)),
            (", p99", "ms", lambda one: one.quantile(0.99)),
        ]
        for what, unit, value in columns:
            values = {server: [value(one) for one in all_of] for server, all_of in sent.items()}
            found.append(Row(name + what, unit, middle(values), {} if what else targets))
    return found


def _sent(server: Server, load: Load, seconds: float, seeds: "itertools.count[int]") -> Sent:
    return asyncio.run(send(server, load, seconds=seconds, seed=next(seeds)))
