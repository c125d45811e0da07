"""Puts the server together and runs it until a signal ends it."""

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn.server
from uvicorn.config import Config
from uvicorn.server import HANDLED_SIGNALS

from embedder.application import build_router
from embedder.core.errors import SettingsError
from embedder.core.model_runner import InferenceSession
from embedder.core.settings import EmbedderSettings
from embedder.server.app import LAST_SECONDS, App, Hooks, Lifecycle
from embedder.server.exchange import AccessLog
from embedder.server.http_protocol import http_config
from embedder.server.process import available_cores, use_one_heap, use_small_pages
from embedder.server.queue import BatchingSession, Bounds
from embedder.server.settings import PREFIX, QUEUE_TOKENS_PER_WORKER, ServerSettings

if TYPE_CHECKING:
    from embedder.server.keys import Keys


class Server(uvicorn.server.Server):
    """uvicorn's server, which ends by our drain; a second signal ends it within a second.

    `end_within` gets the seconds that are left for the end, whatever the threads do.
    """

    def __init__(
        self,
        config: Config,
        app: App,
        lifecycle: Lifecycle,
        ready: Callable[[], None],
        end_within: Callable[[float], None],
    ) -> None:
        super().__init__(config)
        self._app, self._lifecycle = app, lifecycle
        self._ready, self._end_within = ready, end_within
        self._loop: asyncio.AbstractEventLoop | None = None
        self._signals = 0
        self._drain: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin the drain. It is called in the main thread, between two steps of the loop."""
        self._signals += 1
        if self._loop is not None and self._signals == 1:
            # Ctrl-C is a person's, who waits, and not a load balancer's.
            self._loop.call_soon_threadsafe(self._begin_drain, sig != signal.SIGINT)
            return
        self.should_exit = self.force_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._end_within, LAST_SECONDS)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Refuse what waits for the model, soon also what else is not done; close connections."""
        self._app.stop()
        # The other half is for the answers, and for the end of the model's run.
        refusal = asyncio.get_running_loop().call_later(self._lifecycle.last / 2, self._refuse)
        await super().shutdown(sockets)
        refusal.cancel()

    def _refuse(self) -> None:
        for task in self.server_state.tasks:
            task.cancel()

    def _begin_drain(self, accept: bool) -> None:
        self._end_within(self._lifecycle.total)
        self._drain = asyncio.ensure_future(self._lifecycle.drain(self._stop, accept=accept))

    def _stop(self) -> None:
        self.should_exit = True


def serve(
    settings: ServerSettings, model_settings: EmbedderSettings, *, ready: Callable[[str], None]
) -> None:
    """Load the model, run it once, and answer requests until a signal, or raise a `StartError`.

    `ready` gets the address as soon as requests are answered.
    """
    with ExitStack() as ends:
        _serve(settings, model_settings, ready, ends)


def _serve(
    settings: ServerSettings,
    model_settings: EmbedderSettings,
    ready: Callable[[str], None],
    ends: ExitStack,
) -> None:
    use_one_heap()
    workers = settings.workers or available_cores()
    bounds = Bounds(
        settings.max_queue_tokens or workers * QUEUE_TOKENS_PER_WORKER, settings.max_queue_seconds
    )
    listener = listen(settings)
    queues: list[BatchingSession] = []

    def wrap(session: InferenceSession) -> InferenceSession:
        queue = BatchingSession(
            session, workers=workers, run_tokens=settings.max_batch_tokens, bounds=bounds
        )
        queues.append(queue)
        ends.callback(queue.close)
        return queue

    router = build_router(
        model_settings,
        wrap=wrap,
        run_tokens=settings.max_batch_tokens,
        max_concurrent_requests=settings.max_concurrent_requests,
    )
    if router.models[1:]:
        names = ", ".join(model.loaded.manifest.model.name for model in router.models)
        raise SettingsError(
            f"A server runs one model; found {names}; allowed: the folder of one of them as "
            "EMBEDDING_ARTIFACT."
        )
    (queue,) = queues
    hooks = load_hooks(settings, queue)
    if hooks.metrics is not None:
        queue.observe = hooks.metrics.observe_run
    # In all workers together, each with a run of the size that runs are merged to: the memory that
    # runs share grows to what they need together, which requests may do hours later.
    words = "warm " * settings.max_batch_tokens
    router.model.loaded.warm([f"{worker} {words}" for worker in range(workers)])
    use_small_pages()
    lifecycle = Lifecycle(accept=settings.drain_accept, total=settings.drain)
    app = App(
        router,
        queue=queue,
        log=AccessLog(model_settings),
        lifecycle=lifecycle,
        settings=settings,
        hooks=hooks,
    )
    ends.callback(app.close)
    if hooks.tracer is not None:
        ends.callback(hooks.tracer.close)
    server = http_server(
        app, lifecycle, settings, ready=lambda: ready(_url(listener)), end_within=_end_within
    )
    # The objects made so far stay alive, so the garbage collector need not traverse them.
    gc.freeze()
    gc.enable()
    # uvicorn restores these at its end. With Python's own, a signal during a run would be a crash.
    for number in HANDLED_SIGNALS:
        signal.signal(number, lambda *_: os._exit(0))
    asyncio.run(server.serve(sockets=[listener]))


def _end_within(seconds: float) -> None:
    """End the process after this time, whatever its threads do then."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()


def load_hooks(settings: ServerSettings, queue: BatchingSession) -> Hooks:
    """Load what the settings turn on, and import nothing else.

    Raises:
        SettingsError: if the keys cannot be used, or the server would be open to all without being
            told so.
    """
    keys, metrics, tracer = _keys(settings), None, None
    if settings.metrics_key and keys is None:
        raise SettingsError("--metrics-key needs keys, and the server has none.")
    if not settings.no_metrics:
        from embedder.server.metrics import Metrics  # noqa: PLC0415

        metrics = Metrics(queue)
    if settings.otlp_endpoint is not None:
        from embedder.server.traces import Tracer  # noqa: PLC0415

        tracer = Tracer(settings.otlp_endpoint)
    return Hooks(keys, metrics, tracer)


def _keys(settings: ServerSettings) -> "Keys | None":
    given = [settings.keys_file is not None, settings.keys is not None, settings.no_keys]
    if not any(given):
        raise SettingsError(
            "The server has no keys, so that anyone who reaches its port could use it. Give "
            "--keys-file with a file that `embedding-kit embedder.server.new_key NAME` makes, or "
            "--no-keys if everyone may call, for example behind a proxy that checks callers."
        )
    if sum(given) > 1:
        raise SettingsError(
            f"Only one of --keys-file, {PREFIX}KEYS and --no-keys can be given; found {sum(given)}."
        )
    if settings.no_keys:
        return None
    from embedder.server.keys import Keys, read_keys_file  # noqa: PLC0415

    file = settings.keys_file
    if file is not None:
        return Keys(partial(read_keys_file, file), source=file, report=_report)
    # A process keeps its variables as it was started with.
    return Keys(lambda: settings.keys or "", source=f"{PREFIX}KEYS")


def _report(error: SettingsError) -> None:
    sys.stderr.write(f"error: {error} The keys from before stay valid.\n")
    sys.stderr.flush()


def http_server(
    app: App,
    lifecycle: Lifecycle,
    settings: ServerSettings,
    *,
    ready: Callable[[], None],
    end_within: Callable[[float], None] = lambda _: None,
) -> Server:
    """Return the HTTP server around the application; it calls `ready` when it has started."""
    config = http_config(
        app, header_timeout=settings.header_timeout, keep_alive=settings.keep_alive
    )
    return Server(config, app, lifecycle, ready, end_within)


def listen(settings: ServerSettings) -> socket.socket:
    """Take the address. Until requests are answered, connections to it are refused."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio turns off Nagle's algorithm only for sockets that name TCP. With it, the body of a
    # response would wait 40 ms for the client to acknowledge the head.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"The server cannot listen at {settings.host}, port {settings.port}: {error.strerror}."
        ) from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
