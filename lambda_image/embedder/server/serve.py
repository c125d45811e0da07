"""Puts the server together and runs it until a signal ends it."""

import asyncio
import gc
import os
import signal
import socket
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from types import FrameType

import uvicorn.server
from uvicorn.server import HANDLED_SIGNALS

from embedder.application import build_router
from embedder.core.errors import SettingsError
from embedder.core.model_runner import InferenceSession
from embedder.core.settings import EmbedderSettings
from embedder.server.app import METRICS_PATH, STATUS_PATHS, App
from embedder.server.http_protocol import http_config
from embedder.server.keys import Keys
from embedder.server.options import PREFIX, ServerOptions
from embedder.server.process import keep_heap_small, use_one_heap
from embedder.server.queue import BatchingSession
from embedder.server.server_request import ServerLog

#: The longest turn of a thread in the interpreter, if others wait for theirs.
_SWITCH_SECONDS = 0.0005
#: The end of `--drain` in which what is not done is answered with 503.
_LAST_SECONDS = 1


class DrainingServer(uvicorn.server.Server):
    """uvicorn's server, which has ended `--drain` seconds after a signal.

    uvicorn accepts no more connections, and finishes the requests that have begun. Those that are
    not done in the last second are cancelled, and answered with 503.
    """

    def __init__(self, app: App, options: ServerOptions, *, ready: Callable[[], None]) -> None:
        application: Callable[..., Awaitable[None]] = app
        if app.tracer is not None:
            application = app.tracer.around(app, without=(*STATUS_PATHS, METRICS_PATH))
        graceful = options.drain - _LAST_SECONDS
        super().__init__(http_config(application, keep_alive=options.keep_alive, graceful=graceful))
        self._drain, self._ready = options.drain, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections."""
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Begin the end, or end at once: the second signal is of someone who does not wait."""
        if self.should_exit:
            os._exit(0)
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish the requests that have begun."""
        _end_within(self._drain)
        await super().shutdown(sockets)


def serve(
    options: ServerOptions, model_settings: EmbedderSettings, *, ready: Callable[[str], None]
) -> None:
    """Load the model, run it once, and answer requests until a signal, or raise a `StartError`.

    `ready` gets the address as soon as requests are answered.
    """
    with ExitStack() as ends:
        use_one_heap()
        # A text's thread waits less for those that tokenize lists: by default for 5 ms of each.
        sys.setswitchinterval(_SWITCH_SECONDS)
        keys, tracer = load_keys(options), None
        queues: list[BatchingSession] = []

        def wrap(session: InferenceSession) -> InferenceSession:
            queues.append(BatchingSession(session, options))
            return queues[-1]

        router = build_router(
            model_settings,
            wrap=wrap,
            run_tokens=options.max_batch_tokens,
            max_concurrent_requests=options.max_concurrent_requests,
        )
        if router.models[1:]:
            names = ", ".join(model.loaded.manifest.model.name for model in router.models)
            raise SettingsError(
                f"A server runs one model; found {names}; allowed: the folder of one of them as "
                "EMBEDDING_ARTIFACT."
            )
        (queue,) = queues
        ends.callback(queue.close)
        if options.otlp_endpoint is not None:
            from embedder.server.traces import Tracer  # noqa: PLC0415 - it is slow to import

            tracer = Tracer()
            # It closes before the queue, which may take all the time that is left.
            ends.callback(tracer.close)
        # In all workers together, each with a run of the size that runs are merged to: the memory
        # that runs share grows to what they need together, which requests may do hours later.
        words = "warm " * options.max_batch_tokens
        router.model.loaded.warm([f"{worker} {words}" for worker in range(queue.workers)])
        keep_heap_small()
        log = ServerLog(model_settings)
        app = App(router, queue=queue, log=log, options=options, keys=keys, tracer=tracer)
        ends.callback(app.close)
        listener = listen(options)
        server = DrainingServer(app, options, ready=lambda: ready(_url(listener)))
        # The objects made so far stay alive, so the garbage collector need not traverse them.
        gc.freeze()
        gc.enable()
        # uvicorn restores these at its end. With Python's own, a signal during a run would be a
        # crash.
        for number in HANDLED_SIGNALS:
            signal.signal(number, lambda *_: os._exit(0))
        asyncio.run(server.serve(sockets=[listener]))


def _end_within(seconds: float) -> None:
    """End the process after this time, whatever its threads do then."""
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()


def load_keys(options: ServerOptions) -> Keys | None:
    """Load the keys, or nothing with `no_keys`.

    Raises:
        SettingsError: if they cannot be used, or the server would be open to all by mistake.
    """
    if (options.keys is not None) == options.no_keys:
        raise SettingsError(
            f"One of {PREFIX}KEYS and --no-keys is required, and only one: the first has a line "
            "name:sha256 for each key (docs/server.md); with the second everyone who reaches the "
            "port may call, for example behind a proxy that checks callers."
        )
    return None if options.keys is None else Keys(options.keys, source=f"{PREFIX}KEYS")


def listen(options: ServerOptions) -> socket.socket:
    """Listen at the address, which nothing does before the model has run."""
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    try:
        return socket.create_server((options.host, options.port), family=family)
    except OSError as error:
        raise SettingsError(f"The server cannot listen: {error.strerror}.") from error


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
