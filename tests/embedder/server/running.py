"""A server with the small model, on a port of this machine, in threads of the test's process."""

import asyncio
import hashlib
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest.mock import patch

import httpx2
import numpy as np
import numpy.typing as npt

from embedder.core.engine import Engine
from embedder.core.model_runner import InferenceSession
from embedder.core.search import SearchIndex
from embedder.core.settings import EmbedderSettings
from embedder.http.apis.operation import ServedModel
from embedder.http.router import Router
from embedder.server import serve
from embedder.server.app import App
from embedder.server.keys import Keys
from embedder.server.options import ServerOptions
from embedder.server.queue import BatchingSession
from embedder.server.serve import DrainingServer, listen
from embedder.server.server_request import ServerLog
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of, router_of
from tests.fixtures.waiting import PATIENCE, wait_until

if TYPE_CHECKING:  # It takes a good part of the time of a test.
    from embedder.server.traces import Tracer

OPTIONS = ServerOptions(host="127.0.0.1", port=0, no_keys=True, workers=1)


def keys_of(*names: str) -> Keys:
    """Return keys whose secrets are their names."""
    lines = [f"{name}:{hashlib.sha256(name.encode()).hexdigest()}" for name in names]
    return Keys("\n".join(lines), source="KEYS")


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@dataclass
class GatedSession(HashSession):
    """A session with runs that begin and end when the test says so."""

    entered: "queue.Queue[tuple[int, ...]]" = field(default_factory=queue.Queue)
    gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Wait for the gate, and compute."""
        self.entered.put(input_ids.shape)
        assert self.gate.acquire(timeout=PATIENCE)
        return super().run(input_ids, attention_mask)

    def wait_for_run(self) -> tuple[int, ...]:
        """Return the shape of the next run, which has begun and waits."""
        return self.entered.get(timeout=PATIENCE)

    def open(self, runs: int = 1_000) -> None:
        """Let this many runs end."""
        self.gate.release(runs)


@dataclass
class Running:
    """A server that answers requests."""

    url: str
    address: tuple[str, int]
    router: Router
    queue: BatchingSession
    app: App
    server: DrainingServer
    thread: threading.Thread

    def post(self, path: str, body: Any, **options: Any) -> httpx2.Response:
        """Send a request: bytes unchanged, everything else as JSON."""
        content = {"content": body} if isinstance(body, bytes) else {"json": body}
        return httpx2.post(self.url + path, **content, **options, timeout=PATIENCE)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        """Send a GET request."""
        return httpx2.get(self.url + path, **options, timeout=PATIENCE)

    def connect(self) -> socket.socket:
        """Open a connection that the test writes to itself."""
        return socket.create_connection(self.address, timeout=PATIENCE)

    @property
    def in_flight(self) -> int:
        """The number of requests that are being answered."""
        return len(self.server.server_state.tasks)

    def wait_until(self, condition: str, value: int) -> None:
        """Wait until an attribute of this server or of its queue has this value."""
        owner: Any = self if hasattr(self, condition) else self.queue
        wait_until(lambda: getattr(owner, condition) == value)


@contextmanager
def running(
    session: InferenceSession | None = None,
    *,
    keys: Keys | None = None,
    tracer: "Tracer | None" = None,
    seconds_per_token: float = 0.0,
    max_tokens: int = 64,
    entries: Sequence[str] | None = None,
    open_index: Callable[[Engine], SearchIndex] | None = None,
    **options: Any,
) -> Iterator[Running]:
    """Run a server; `entries` are its search index, or `open_index` opens it.

    `seconds_per_token` is the pace that it has measured.
    """
    server_options = replace(OPTIONS, **options)
    batching = BatchingSession(session or HashSession(), server_options)
    batching._measure(1, seconds_per_token)
    engine = Engine(
        manifest_of(max_tokens=max_tokens),
        WordTokenizer(),
        batching,
        run_tokens=server_options.max_batch_tokens,
    )
    router = router_of(engine, entries)
    if open_index is not None:
        router = Router(ServedModel(engine, open_index(engine)))
    app = App(
        router,
        queue=batching,
        log=ServerLog(EmbedderSettings(artifact="")),
        options=server_options,
        keys=keys,
        tracer=tracer,
    )
    listener = listen(server_options)
    host, port = listener.getsockname()
    started = threading.Event()
    server = DrainingServer(app, server_options, ready=started.set)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])))
    url, address = f"http://{host}:{port}", (host, port)
    thread.start()
    assert started.wait(PATIENCE)
    with patch.object(serve, "_end_within"):  # It would end the process of the tests.
        try:
            yield Running(url, address, router, batching, app, server, thread)
        finally:
            if isinstance(session, GatedSession):
                session.open()
            server.should_exit = True
            thread.join(PATIENCE)
            app.close()
            batching.close()
            assert not thread.is_alive()


class Busy(NamedTuple):
    """A server with a run that lasts until `finish`, and what asks it in other threads."""

    server: Running
    session: GatedSession
    running: Future
    threads: ThreadPoolExecutor

    def embed(self, inputs: Any, **options: Any) -> Future:
        """Send a request that waits."""
        return self.threads.submit(self.server.post, "/embed", {"inputs": inputs}, **options)

    def finish(self, *answers: Future) -> None:
        """Let all runs end; the first request and these others are answered."""
        self.session.open()
        for answer in (self.running, *answers):
            assert answer.result(PATIENCE).status_code == 200


@contextmanager
def busy(**options: Any) -> Iterator[Busy]:
    """Run a server, and begin a run; options are those of `running`."""
    session = GatedSession()
    with running(session, **options) as server, ThreadPoolExecutor(8) as threads:
        answer = threads.submit(server.post, "/embed", {"inputs": "a"})
        session.wait_for_run()
        yield Busy(server, session, answer, threads)
