"""The contenders that are processes with a model, and what is measured of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from tools.bench.report import ROOT, least, middle, turns
from tools.pinned_environment import pinned_environment

#: Consecutive starts of a contender: unmeasured ones to warm up, then measured ones.
_WARM_UPS, _STARTS = 2, 3
#: The seconds of a turn, in which requests follow each other: a virtual machine's host takes idle
#: memory back, and the first request after a pause waits for it.
_TURN = 0.25
#: The seconds before each round of requests after idling.
_PAUSE = 1.0
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
#: The pinned packages of other libraries, a file for each environment.
ENVIRONMENTS = Path(__file__).with_name("environments")


@dataclass(frozen=True, slots=True)
class Contender:
    """An implementation to measure: its kind, the folder that it loads, and an interpreter."""

    kind: str
    folder: Path
    python: str = sys.executable


def python_of(environment: str) -> str:
    """Return the Python with the packages of a file in `environments`: installed once; "" is ours.

    Raises:
        SystemExit: uv cannot install them.
    """
    if not environment:
        return sys.executable
    pins = ENVIRONMENTS / f"{environment}.txt"
    try:
        return str(pinned_environment(f"bench-{environment}", pins))
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"error: uv cannot install {pins}: its message is above") from error


class Worker(subprocess.Popen[str]):
    """The process of a contender, which ends with its `with` block.

    Attributes:
        start: Seconds until it was ready: `wall`, and `cpu` as measured by the process itself.
    """

    def __init__(self, contender: Contender) -> None:
        began = time.perf_counter()
        super().__init__(
            [contender.python, "-m", "tools.bench.worker", contender.kind, str(contender.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            # The first start, which is not measured, may write byte code.
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "lambda_image")]),
                "PYTHONDONTWRITEBYTECODE": "",
                "HF_HUB_OFFLINE": "1",
            },
        )
        self._kind = contender.kind
        self.start: dict[str, float] = {**self._answer(), "wall": time.perf_counter() - began}

    def ask(self, request: object) -> Any:
        """Send a request of `worker.py`, and return its answer."""
        print(json.dumps(request), file=self.stdin, flush=True)
        return self._answer()

    def _answer(self) -> Any:
        line = self.stdout.readline() if self.stdout else ""
        if not line:
            raise RuntimeError(f"{self._kind} ended with status {self.wait()}")
        return json.loads(line)


@contextmanager
def workers(contenders: Mapping[str, Contender]) -> Iterator[dict[str, Worker]]:
    """Start the contenders, and stop them at the end of the context."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(Worker(contender)) for name, contender in contenders.items()
        }


def starts(
    contenders: Mapping[str, Contender],
    texts: Mapping[str, Sequence[str]],
    *,
    rounds: int,
    cold: bool = False,
) -> dict[str, dict[str, float]]:
    """Start each contender several times in a row, and let it embed its texts.

    The first starts of a row are not measured: the others' starts between two rows take long
    enough for a kernel or a hypervisor that reclaims memory to drop files from the page cache and
    to release free pages. For cold starts, the page cache is dropped before each one, and all are
    measured.

    Returns:
        By contender: the least milliseconds `cpu` and `wall` until it is ready, and the median of
        `peak`, the highest memory in MB after the texts.
    """

    def start(name: str) -> dict[str, float]:
        if cold:
            os.sync()
            DROP_CACHES.write_text("1", encoding="ascii")
        with Worker(contenders[name]) as worker:
            return {**worker.start, "peak": worker.ask(texts[name])["peak"]}

    def row(name: str) -> list[dict[str, float]]:
        warm_ups = 0 if cold else _WARM_UPS
        return [start(name) for _ in range(warm_ups + _STARTS)][warm_ups:]

    rows = turns({name: partial(row, name) for name in contenders}, rounds=rounds, warm_up=0)

    def found(key: str) -> dict[str, list[float]]:
        return {name: [run[key] for run in chain(*runs)] for name, runs in rows.items()}

    return {
        **{key: least(found(key), 1000) for key in ("cpu", "wall")},
        "peak": middle(found("peak")),
    }


def latency(
    running: Mapping[str, Worker], texts: Mapping[str, Sequence[str]], *, seconds: float
) -> dict[str, float]:
    """Return the least milliseconds of CPU time of a request back to back, by contender.

    Each has at least two turns of at least two requests; `seconds` is the time for all of them.
    """
    work = {
        name: partial(worker.ask, {"texts": texts[name], "seconds": _TURN})
        for name, worker in running.items()
    }
    times = turns(work, rounds=2, seconds=seconds, warm_up=0)
    return least({name: [*chain(*runs)] for name, runs in times.items()}, 1000)


def latency_after_idling(
    running: Mapping[str, Worker], texts: Mapping[str, Sequence[str]], *, rounds: int
) -> dict[str, float]:
    """Return the median milliseconds of CPU time of a request after a second of idling.

    A round is a second's pause and a request to each contender, so that all idle equally long.
    """
    work = {name: partial(worker.ask, texts[name]) for name, worker in running.items()}
    usage = turns(work, rounds=rounds, warm_up=0, pause=_PAUSE)
    times = middle({name: [run["cpu"] for run in runs] for name, runs in usage.items()})
    return {name: 1000 * seconds for name, seconds in times.items()}
