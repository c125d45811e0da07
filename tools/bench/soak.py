"""Send a hundred thousand mixed requests, and monitor answers and memory.

By default the handler answers in AWS's Runtime Interface Emulator with awslambdaric, as in a Lambda
container; with --server the server answers 16 clients at the same time, and a sample of the
requests once more one by one, without a cache. It fails if a response has an unexpected status, if
an answer of the sample differs, or if the memory grows: the last tenth of the run may use 2% more
than the second tenth.

The server meanwhile has other callers, each with a key. `greedy` sends lists of a thousand texts;
`hostile` sends uploads that stop and heads without an end; `single`, which must not feel them,
sends one short text after the other from a process of its own. It also fails if a text of `single`
is refused, if the model does more than three runs of 256 tokens for each worker between a text and
its answer (p99), or if the server ever uses 200 MB. The runs are counted, so a busy machine changes
little. With fewer --requests, such as 10000, the growth of the memory is only shown.

The first tenth fills the caches. WordPiece has two, for the parts between spaces and for those
between punctuation, and Python does not return their memory. The mixed requests alone would fill
both only in the middle of the run.
"""

import argparse
import asyncio
import contextlib
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import orjson
from tqdm import tqdm

from embedder.server.process import available_cores
from embedding_client.cli import whole
from tools.bench.counted_server import Work
from tools.bench.report import KIT, LIMIT, ROOT, Comparison, ReportRow
from tools.bench.server import EMBEDDINGS, Sent, ServerProcess, bodies, kit
from tools.local_endpoint.events import to_event
from tools.local_endpoint.runtime import EmulatedRuntime, Function, emulator_binary
from tools.local_endpoint.signature import SignedRequest
from tools.process import family_of, memory_kb

#: Pairs of requests at the beginning that fill the tokenizer's word cache (16,384 words, then it is
#: cleared), and new words in each: too many tokens for the model, but within its characters.
FILLING, FILLING_WORDS = 50, 512
#: The requests of a whole run, after which memory must not grow any more.
_REQUESTS = 100_000
#: The number of requests between two readings of the memory, and between two of the sample.
_EVERY, _SAMPLED = 100, 50
_MOST_GROWTH, _MOST_RUNS, _MOST_MB = 2.0, 3.0, 200.0
#: The soak's own caller of the server, and its key.
_MIXED = "mixed"
_WORDS = """
the of and parse date string model vector search über façade 日本語 😀 don't e-mail 3.14
embedding lambda signature region timeout retry Zürich naïve мир שלום
""".split()  # noqa: SIM905 - a list would have a line for each

#: Method, path, body, expected status.
Case = tuple[str, str, Any, int]
_Request = Callable[[random.Random], Case]
_T = TypeVar("_T")
_BASE64 = {"encoding_format": "base64", "add_special_tokens": True}
_SOURCE = "source_sentence"


@dataclass
class Soak:
    """Answers by status, wrong ones, the memory in kB over time, and a sample with answers."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    sample: list[tuple[Case, bytes]] = field(default_factory=list)

    def add(self, case: Case, status: int, answer: bytes, memory: Callable[[], float]) -> None:
        """Compare an answer with what is expected."""
        method, path, body, expected = case
        self.statuses[status] += 1
        count = self.statuses.total()
        if status != expected:
            self.wrong.append(f"{method} {path} {str(body)[:80]}: {status}, {answer[:200]!r}")
        if count % _SAMPLED == 0:
            self.sample.append((case, answer))
        if count % _EVERY == 0:
            self.memory.append(memory())


#: The names of the callers, which are their keys, too.
CALLERS = GREEDY, HOSTILE, SINGLE = "greedy", "hostile", "single"
#: At the same time: lists of a thousand texts, and single texts.
_LISTS, _TEXTS = 3, 2
_UPLOAD = (
    f"POST /embed HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {HOSTILE}\r\n"
    "content-length: 500000\r\n\r\n"
).encode()
#: Beginnings of requests that have no end, and need no key, and the bytes repeated after them.
_ENDLESS = [
    (b"GET /", b"x" * 65536),
    (b"GET / HTTP/1.1\r\n", b"a: b\r\n" * 10_000),
    (b"GET / HTTP/1.1\r\na: ", b"x" * 65536),
    (b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n" * 10_000),
    (b"", b"GET / HTTP/1.1\r\n\r\n" * 4000),
]
#: Attacks of `hostile`: uploads that stop, half of them at the beginning, and heads without an end.
_ATTACKS = {
    "uploads": [[_UPLOAD, b"{"], [_UPLOAD, b'{"inputs": ["' + b"x" * 450_000]] * 16,
    "heads": [[begin, *[repeated] * (60_000_000 // len(repeated))] for begin, repeated in _ENDLESS],
}


@dataclass
class Singles:
    """Answers to the texts of `single`: their statuses, and the model's work before each."""

    statuses: Counter[int] = field(default_factory=Counter)
    #: Runs of 256 tokens between a text and its answer, for each worker.
    runs: list[float] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)

    async def client(self, server: ServerProcess, work: Work, *, seed: int) -> None:
        """Send one text after the other."""
        workers = available_cores()
        async with server.session(SINGLE) as session:
            for body in cycle(bodies("short", seed=seed)):
                runs, began = work.runs, time.perf_counter()
                answer = await session.post(EMBEDDINGS, data=body)
                await answer.read()
                self.statuses[answer.status] += 1
                if work.is_over:
                    break
                self.runs.append((work.runs - runs) / workers)
                self.milliseconds.append(1000 * (time.perf_counter() - began))


def send_singles(server: ServerProcess, path: Path) -> Singles:
    """Send texts until the work in the file is over."""

    async def clients() -> None:
        async with asyncio.TaskGroup() as group:
            for seed in range(_TEXTS):
                group.create_task(singles.client(server, work, seed=seed))

    singles, work = Singles(), Work(path)
    asyncio.run(clients())
    return singles


@dataclass
class OtherCallers:
    """Sends what the other callers send, and keeps what came back."""

    server: ServerProcess
    #: The file in which the server counts its runs.
    work: Path
    lists: Sent = field(default_factory=Sent)
    single: Singles = field(default_factory=Singles)
    hostile: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    async def next_to(self, done: Awaitable[_T]) -> _T:
        """Send requests until something is done; return its result."""
        lists = bodies("short", texts=1000)
        callers = [
            *(self.lists.client(self.server, cycle(lists), key=GREEDY) for _ in range(_LISTS)),
            *(
                self._attack(name, pieces)
                for name, attacks in _ATTACKS.items()
                for pieces in attacks
            ),
        ]
        # Their process starts anew: a fork would have the threads of this one.
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as processes:
            singles = processes.submit(send_singles, self.server, self.work)
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(caller) for caller in callers]
                try:
                    result = await done
                finally:
                    Work(self.work).end()
                for task in tasks:
                    task.cancel()
            self.single = await asyncio.wrap_future(singles)
        return result

    async def _attack(self, name: str, pieces: Sequence[bytes]) -> None:
        """Send data until the server answers or closes, again and again; a close is a status 0."""
        while True:
            answer = b""
            with contextlib.suppress(ConnectionError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
                reading = asyncio.create_task(reader.read(1000))
                try:
                    for piece in pieces:
                        writer.write(piece)
                        await writer.drain()
                        if reading.done():
                            break
                    answer = await reading
                finally:
                    reading.cancel()
                    writer.transport.abort()
            self.hostile[name][int(answer[9:12] or 0)] += 1
            await asyncio.sleep(0.5)


OPTIONS: Mapping[str, Any] = {
    "artifact": {"type": Path, "help": "the folder of a compiled model"},
    "--server": {"action": "store_true", "help": "the server instead of the function"},
    "--requests": {"type": whole(1, 1_000_000_000), "default": _REQUESTS},
}


def measure(options: argparse.Namespace) -> Comparison:
    """Send the requests."""
    count, artifact = 1000 if options.quick else options.requests, options.artifact.resolve()
    requests = iter(tqdm(cases(count, seed=1), total=count, unit=" requests", mininterval=1))
    rows: list[ReportRow] = []
    notes: list[str] = []
    if options.server:
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder, "work")
            counted = kit(
                artifact,
                truncate="refuse",
                keys=(_MIXED, *CALLERS),
                program=("tools.bench.counted_server", str(work)),
            )
            callers = OtherCallers(counted, work)
            with counted.running():
                mixed = soak(counted, requests, clients=16, key=_MIXED)
                result = asyncio.run(callers.next_to(mixed))
                rows, notes = _results(callers)
    else:
        result = _function(artifact, requests)
    tenths = [float(tenth.mean()) / 1024 for tenth in np.array_split(result.memory, 10)]
    growth = 100 * (tenths[9] / tenths[1] - 1)
    # In a shorter run the caches still grow.
    grown: dict[str, float] = {LIMIT: 1} if count >= _REQUESTS else {}
    return Comparison(
        f"{count} mixed requests",
        {KIT: "the server" if options.server else "the function", LIMIT: "limit"},
        [
            ReportRow("wrong answers", "requests", {KIT: len(result.wrong), LIMIT: 0}, {LIMIT: 1}),
            ReportRow("growth of the memory", "%", {KIT: growth, LIMIT: _MOST_GROWTH}, grown),
            *rows,
        ],
        base=LIMIT,
        notes=[
            f"answers by status: {dict(sorted(result.statuses.items()))}",
            f"memory by tenths, MB: {' '.join(f'{megabytes:.1f}' for megabytes in tenths)}",
            *notes,
            *(f"wrong: {line}" for line in result.wrong[:10]),
        ],
    )


def _results(callers: OtherCallers) -> tuple[list[ReportRow], list[str]]:
    """Return what became of the other callers, as rows with limits and as notes."""
    single, run_milliseconds = callers.single, Work(callers.work).milliseconds
    refused = single.statuses.total() - single.statuses[200]
    quantiles = {
        unit: np.quantile(values, (0.5, 0.99, 1.0))
        for unit, values in (
            ("runs", single.runs),
            ("runs by the clock", np.array(single.milliseconds) / run_milliseconds),
        )
    }
    p99 = float(quantiles["runs"][1])
    highest = callers.server.memory_mb("VmHWM")
    rows = [
        ReportRow("texts of single refused", "texts", {KIT: refused, LIMIT: 0}, {LIMIT: 1}),
        ReportRow("p99 of single", "runs", {KIT: p99, LIMIT: _MOST_RUNS}, {LIMIT: 1}),
        ReportRow("highest memory", "MB", {KIT: highest, LIMIT: _MOST_MB}, {LIMIT: 1}),
    ]
    notes = [
        f"greedy, lists by status: {dict(callers.lists.statuses)}",
        *(f"hostile, {name} by status: {dict(count)}" for name, count in callers.hostile.items()),
        f"single: {len(single.runs)} texts; a run of 256 tokens takes {run_milliseconds:.1f} ms",
        *(
            f"single, p50, p99 and most {unit}: {', '.join(f'{value:.2f}' for value in values)}"
            for unit, values in quantiles.items()
        ),
    ]
    return rows, notes


def _function(artifact: Path, requests: Iterator[Case]) -> Soak:
    binary = emulator_binary()
    if binary is None:
        raise SystemExit("error: AWS's emulator has no binary for this machine")
    function = Function(
        handler="embedder.aws_lambda.handler.handler",
        source_root=ROOT / "lambda_image",
        environment={"EMBEDDING_ARTIFACT": str(artifact)},
    )
    result = Soak()

    def memory() -> float:
        # The function is the largest process below this one.
        return max(map(memory_kb, family_of(os.getpid())[1:]))

    with contextlib.closing(EmulatedRuntime(function, binary=binary)) as runtime:
        headers = {"content-type": "application/json"}
        for case in requests:
            method, path, body, _ = case
            request = SignedRequest(method=method, target=path, headers=headers, body=_body(body))
            event = to_event(request, access_key="local", source_ip="127.0.0.1")
            answer = json.loads(runtime.invoke(event))
            result.add(case, answer["statusCode"], str(answer).encode(), memory)
    return result


async def soak(
    server: ServerProcess, requests: Iterator[Case], *, clients: int, key: str = ""
) -> Soak:
    """Send requests from some clients at the same time, then a sample of them again, one by one."""
    result = Soak()

    async def send(case: Case) -> tuple[int, bytes]:
        answer = await session.request(*case[:2], data=_body(case[2]))
        return answer.status, await answer.read()

    async def client() -> None:
        for case in requests:
            # Sixteen clients are more than the queue holds where the machine is slow.
            while (answered := await send(case))[0] == 429:
                await asyncio.sleep(1)
            result.add(case, *answered, server.allocated_kb)

    async with server.session(key) as session:
        await asyncio.gather(*[client() for _ in range(clients)])
        for case, answer in result.sample:
            _, again = await send(case)
            if _fixed(again) != _fixed(answer):
                result.wrong.append(f"{case[0]} {case[1]} has another answer when it is alone")
    return result


def _body(body: Any) -> bytes:
    """Return a body as bytes: a string as it is, anything else as JSON."""
    return (body or "").encode() if isinstance(body, str | None) else orjson.dumps(body)


def _fixed(answer: bytes) -> Any:
    """Return an answer without what differs from time to time."""
    value = orjson.loads(answer)
    for name in ("id", "timings", "request_id") if isinstance(value, dict) else ():
        value.pop(name, None)
    return value


def cases(count: int, seed: int) -> Iterator[Case]:
    """Yield requests, the same for the same seed, each with the expected status."""
    rng = random.Random(seed)  # noqa: S311 - chance that can be repeated, no secret
    for _ in range(FILLING):
        words = _new_words(rng, FILLING_WORDS)
        # One chunk, too long to be remembered itself.
        yield "POST", "/tokenize", {"inputs": words.replace(" ", ".")}, 200
        # Refused as too long, but tokenized, so that the filling takes little time.
        yield "POST", "/embed", {"inputs": words}, 422
    weights, requests = zip(*_MIX, strict=True)
    for _ in range(count - 2 * FILLING):
        (request,) = rng.choices(requests, weights)
        yield request(rng)


def _text(rng: random.Random) -> str:
    """Return a text of some words, sometimes a long one; about every other text has new words."""
    count = rng.randint(35, 40) if rng.random() < 0.01 else rng.randint(1, 9)
    words = rng.choices(_WORDS, k=count)
    return " ".join([*words, _new_words(rng)] if rng.random() < 0.5 else words)


def _new_words(rng: random.Random, count: int = 4) -> str:
    """Return words that rarely occur twice."""
    return " ".join(f"{rng.getrandbits(40):x}" for _ in range(count))


def _texts(rng: random.Random) -> list[str]:
    return [_text(rng) for _ in range(rng.randint(1, 4))]


def _ids(rng: random.Random) -> list[int]:
    return [rng.randint(1000, 20_000) for _ in range(rng.randint(1, 9))]


def _post(path: str, body: Callable[[random.Random], Any], status: int = 200) -> _Request:
    return lambda rng: ("POST", path, body(rng), status)


#: Each kind of request, with its share in percent.
_MIX: list[tuple[int, _Request]] = [
    (30, _post("/", lambda r: {"text": _text(r)})),
    (20, _post("/v1/embeddings", lambda r: {"input": _texts(r), "model": "m"})),
    (10, _post("/v1/embeddings", lambda r: {"input": _ids(r), "model": "m", **_BASE64})),
    (10, _post("/embed", lambda r: {"inputs": _texts(r), "truncate": True})),
    (5, _post("/api/v1/embed", lambda r: {"inputs": _text(r), "normalize": True})),
    (5, _post("/", lambda r: {"texts": _texts(r), "output_dtype": "int8"})),
    (3, _post("/tokenize", lambda r: {"inputs": _texts(r)})),
    (2, _post("/similarity", lambda r: {"inputs": {_SOURCE: _text(r), "sentences": _texts(r)}})),
    (1, _post("/", lambda r: {"texts": [_text(r) for _ in range(64)]})),
    (2, lambda _: ("GET", "/health", None, 200)),
    (1, lambda _: ("GET", "/info", None, 200)),
    (1, lambda _: ("GET", "/openapi.json", None, 200)),
    (2, _post("/", lambda r: {"text": _text(r), "size": 7}, 400)),
    (2, _post("/embed", lambda r: {"inputs": "word " * r.randint(3000, 5000)}, 422)),
    (2, _post("/v1/embeddings", lambda r: {"input": [_text(r), ""]}, 400)),
    (2, _post("/", lambda r: f'{{"text": "{r.random()}', 400)),
    (1, lambda r: ("GET", f"/{r.random()}", None, 404)),
    (1, lambda _: ("DELETE", "/", None, 405)),
]
