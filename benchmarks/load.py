"""The capacity of `embed load` on one core: `scripts/bench load`.

The generator sends signed requests to the local Function URL, which verifies each signature. The
function is replaced by a fixed answer, and the endpoint is a process of its own, so that the CPU
time of this process is the generator's: texts, signatures, HTTP, answers, outcomes. CPU time hardly
depends on what else the machine does.
"""

import argparse
import asyncio
import base64
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from benchmarks.machine import cpu_name
from embedding_load.limits import Budget
from embedding_load.outcomes import Kind
from embedding_load.schedule import plan
from embedding_load.sender import Sender
from embedding_load.statistics import generator
from embedding_load.target import Target, target
from local_function_url.endpoint import key_pair, region
from local_function_url.server import LocalFunctionUrl
from local_function_url.signature import Verifier

__all__ = ["main"]

ROOT = Path(__file__).resolve().parents[1]
#: Requests a second of one core.
_TARGET = 500
_DIMENSIONS = 768


class Fixed:
    """A function that answers each request with the same vector."""

    description = "a fixed answer"

    def __init__(self) -> None:
        vector = base64.b64encode(bytes(4 * _DIMENSIONS)).decode()
        body = {"embeddings": [vector], "tokens": 32, "vector_space": "fixed"}
        headers = {"content-type": "application/json"}
        answer = {"statusCode": 200, "headers": headers, "body": json.dumps(body)}
        self._answer = json.dumps(answer).encode()

    def invoke(self, event: bytes) -> bytes:
        """Return the answer."""
        del event
        return self._answer

    def wait(self) -> NoReturn:
        """Wait forever."""
        while True:
            time.sleep(3600)

    def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Measured:
    """A run of the generator."""

    answered: int
    seconds: float
    #: CPU time of this process for one request.
    cpu_seconds: float
    late_share: float


def main(arguments: Sequence[str]) -> int:
    """Measure and print; return 1 if the target is missed."""
    parser = argparse.ArgumentParser(prog="scripts/bench load", description=__doc__)
    parser.add_argument("--rate", type=float, default=300.0, help="default: %(default)g")
    parser.add_argument("--seconds", type=float, default=20.0, help="default: %(default)g")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.serve:
        return _serve()
    command = [sys.executable, "-m", "benchmarks.load", "--serve"]
    with subprocess.Popen(  # noqa: S603 - our own program
        command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, cwd=ROOT
    ) as server:
        assert server.stdout is not None  # noqa: S101  (it is a pipe)
        to = target(
            server.stdout.readline().strip(),
            sign=True,
            key_variable=None,
            profile=None,
            region=region(),
        )
        asyncio.run(_run(to, rate=50, seconds=1))  # imports and connections
        found = asyncio.run(_run(to, rate=options.rate, seconds=options.seconds))
        signing = _signing(to)
        server.communicate("")
    capacity = 1 / found.cpu_seconds
    print(f"{cpu_name()}, Python {sys.version.split()[0]}")
    print(
        f"{found.answered:,} signed requests answered in {found.seconds:.1f} s at "
        f"{options.rate:g} a second; {found.late_share:.1%} taken more than 10 ms late"
    )
    print(f"CPU time of the generator: {1e6 * found.cpu_seconds:.0f} us for each request")
    print(f"of it, the signature: {1e6 * signing:.0f} us")
    print(f"capacity of one core: {capacity:,.0f} requests a second (target: {_TARGET})")
    return int(capacity < _TARGET)


async def _run(to: Target, *, rate: float, seconds: float) -> Measured:
    traffic = plan(rate=rate, shape="flat", seconds=seconds, tokens=(32, 32), most=10**6, seed=0)
    sender = Sender(traffic, to, Budget(1.0, None), connections=100, timeout=60.0, seed=0)
    cpu, clock = time.process_time(), time.perf_counter()
    await sender.run()
    cpu, clock = time.process_time() - cpu, time.perf_counter() - clock
    kinds = [outcome.kind for outcome in sender.outcomes]
    if set(kinds) != {Kind.OK}:
        raise SystemExit(f"not all requests were answered: {sorted(set(kinds))}")
    return Measured(
        len(kinds), clock, cpu / len(kinds), generator(sender.outcomes).late / len(kinds)
    )


def _signing(to: Target, *, times: int = 2000) -> float:
    """Return the CPU seconds of one signature."""
    body = b"x" * 300
    began = time.process_time()
    for _ in range(times):
        to.headers(body)
    return (time.process_time() - began) / times


def _serve() -> int:
    """Serve until standard input is closed."""
    verifier = Verifier(credentials=key_pair(), region=region())
    with LocalFunctionUrl(runtime=Fixed(), verifier=verifier) as url:
        print(url.url, flush=True)
        sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
