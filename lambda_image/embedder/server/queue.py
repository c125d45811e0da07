"""The queue below the engine: runs of many requests, a few workers, one session.

`BatchingSession` is what the engine of a server has for a session. The thread of a request gives it
all batches of the request and waits. Each worker takes the run that is next and others of its
padded length, runs the model once for them, and gives each request its rows. Nothing is delayed so
that more may come: a worker that is free takes what waits.
"""

import contextlib
import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from embedder.core.errors import ClientError, OutOfTimeError, OverloadedError, ShuttingDownError
from embedder.core.model_runner import InferenceSession, RunResult, TokenBatch
from embedder.server.options import ServerOptions
from embedder.server.process import available_cores
from embedder.server.waiting_runs import Ticket, WaitingRun, WaitingRuns

if TYPE_CHECKING:
    import numpy.typing as npt

_GONE = "The client has closed the connection."
#: Tokens after which the measured pace counts older runs half: some seconds of a busy worker.
_HALF_LIFE = 1 << 14


class ClientGoneError(ClientError):
    """The client closed the connection before it had an answer."""

    code = "client_gone"


class BatchingSession:
    """A session that many requests share, run by some worker threads; see `RunBatches`.

    A key's requests are refused while as much of it waits as takes `max_queue_seconds`, by the pace
    of the runs before.
    """

    def __init__(self, session: InferenceSession, options: ServerOptions) -> None:
        self._session, self._queue_seconds = session, options.max_queue_seconds
        self.workers = options.workers or available_cores()
        self._waiting = WaitingRuns(options.max_batch_tokens)
        #: Tokens that were run, and the seconds of one worker for them.
        self._measured_tokens = self._measured_seconds = 0.0
        self._closed = False
        #: Workers that run what waits.
        self._busy = 0
        #: Guards all of the above, and the tickets.
        self._lock = threading.RLock()
        self._current = threading.local()
        self._preparing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._threads = ThreadPoolExecutor(self.workers, "model")

    def run(
        self, input_ids: "npt.NDArray[np.int64]", attention_mask: "npt.NDArray[np.int64]"
    ) -> "npt.NDArray[np.float32]":
        """Embed a batch; see `InferenceSession.run`."""
        return self.run_all([TokenBatch(input_ids, attention_mask)]).vectors[0]

    def run_all(self, batches: Iterable[TokenBatch], *, deadline: float | None = None) -> RunResult:
        """Embed the batches of the request of this thread; see `RunBatches`.

        It is refused if its key's queue is full, if its client has gone, or if the deadline passes.
        """
        ticket: Ticket = getattr(self._current, "ticket", None) or Ticket()
        ticket.runs = runs = [WaitingRun(ticket, batch) for batch in batches]
        entered = time.monotonic()
        try:
            self._enter(ticket)
            ticket.preparation.close()
            ticket.end.result(None if deadline is None else max(0.0, deadline - entered))
        except CancelledError:
            raise ClientGoneError(_GONE) from None
        except TimeoutError:
            self.cancel(ticket)
            raise OutOfTimeError(
                f"The request was not done after {time.monotonic() - entered:.1f} s at the model, "
                "and has no more time. Send it again later, or fewer or shorter texts in it."
            ) from None
        finally:
            ticket.runs = []
        with self._lock:
            # A sparse encoder's list comes in blocks, one after the other.
            ticket.end = Future()
        vectors = [run.vectors for run in runs if run.vectors is not None]
        return RunResult(vectors, time.monotonic() - entered - _busy_seconds(runs))

    @contextlib.contextmanager
    def request(
        self, ticket: Ticket, *, in_turn: bool = False, deadline: float | None = None
    ) -> Iterator[None]:
        """Take the batches of this thread as those of a request, if its client is still there.

        Of a key, one request `in_turn` is prepared at a time: Python tokenizes in one thread at a
        time, so many lists would take it from the texts of other keys. It is refused as by
        `run_all`, before it is tokenized.
        """
        with ticket.preparation:
            if in_turn:
                self._take_turn(ticket, deadline)
            if ticket.end.cancelled():
                raise ClientGoneError(_GONE)
            if in_turn:
                self.check(ticket.key)
            self._current.ticket = ticket
            try:
                yield
            finally:
                self._current.ticket = None

    def _take_turn(self, ticket: Ticket, deadline: float | None) -> None:
        lock = self._preparing[ticket.key]
        seconds = -1.0 if deadline is None else max(0.0, deadline - time.monotonic())
        if not lock.acquire(timeout=seconds):
            raise OutOfTimeError(
                "The request has no more time: other lists of this caller came first. Send it "
                "again later."
            )
        ticket.preparation.callback(lock.release)

    def check(self, key: str) -> None:
        """Refuse a request of a key whose queue is full, before work is put into it."""
        with self._lock:
            if self._closed:
                raise ShuttingDownError
            seconds = self._seconds_until_done(key)
            if seconds >= self._queue_seconds:
                limit = self._queue_seconds
                raise self.refusal(key, round(seconds, 1), "seconds of work", limit)

    def refusal(self, key: str, amount: float, unit: str, limit: float) -> OverloadedError:
        """Return the error for a key that has too much of something in the server.

        `Retry-After` is the time until the key's work in the queue is done, as measured.
        """
        retry_after = max(1, math.ceil(self._seconds_until_done(key)))
        return OverloadedError(
            f"The server has too much to do: it has {amount:.15g} {unit} of this caller, and at "
            f"most {limit:.15g} are allowed. Send the request again in {retry_after} s.",
            headers={"retry-after": str(retry_after)},
        )

    def cancel(self, ticket: Ticket) -> None:
        """Drop the runs of a request that nobody waits for any more."""
        with self._lock:
            if ticket.end.cancel():
                self._waiting.drop(ticket)

    def close(self) -> None:
        """Refuse what waits, and finish the runs that have begun: the process would abort."""
        with self._lock:
            self._closed = True
            waiting = list(self._waiting)
        self._fail(waiting, ShuttingDownError())
        self._threads.shutdown()

    @property
    def waiting_runs(self) -> int:
        """The number of runs that wait."""
        with self._lock:
            return len(self._waiting)

    @property
    def waiting_tokens(self) -> int:
        """The number of tokens that wait, padding included."""
        with self._lock:
            return self._waiting.tokens.total()

    @property
    def seconds(self) -> float:
        """The time that the workers take for what waits, as measured."""
        return self.waiting_tokens * self._seconds_per_token()

    def _seconds_per_token(self) -> float:
        """Return the time of all workers together; 0 before a run."""
        return self._measured_seconds / max(1.0, self._measured_tokens) / self.workers

    def _seconds_until_done(self, key: str) -> float:
        return self._waiting.tokens_until_done(key) * self._seconds_per_token()

    def _enter(self, ticket: Ticket) -> None:
        with self._lock:
            if ticket.end.cancelled():
                return
            self.check(ticket.key)
            ticket.pending = len(ticket.runs)
            self._waiting.add(ticket.runs)
            # A task for each run would stay in the pool when its run joins another one: under load
            # that never ends, the pool would grow without end.
            for _ in range(min(len(ticket.runs), self.workers - self._busy)):
                self._busy += 1
                self._threads.submit(self._run_waiting)

    def _run_waiting(self) -> None:
        """Run what waits until nothing does."""
        while runs := self._next():
            try:
                self._compute(runs)
            except BaseException as error:  # The requests end, and the worker goes on.
                self._fail(runs, RuntimeError(f"A run ended with {type(error).__name__}."))

    def _next(self) -> list[WaitingRun]:
        """Return the runs that are next, or none to a worker that is no longer busy."""
        with self._lock:
            if self._waiting:
                return self._waiting.take()
            self._busy -= 1
            return []

    def _compute(self, runs: list[WaitingRun]) -> None:
        began = time.monotonic()
        try:
            vectors = self._session.run(*_merged(runs))
        except Exception as error:  # ONNX Runtime's classes have no common base.
            if len(runs) == 1:
                self._fail(runs, error)
                return
            # What fails in company may be the fault of one: each gets a run alone.
            for run in runs:
                self._compute([run])
            return
        ended = time.monotonic()
        with self._lock:
            self._measure(sum([run.tokens for run in runs]), ended - began)
            start = 0
            for run in runs:
                run.vectors = vectors[start : start + run.texts]
                run.began, run.ended = began, ended
                start += run.texts
                run.ticket.pending -= 1
                if run.ticket.pending == 0 and not run.ticket.end.done():
                    run.ticket.end.set_result(None)

    def _measure(self, tokens: int, seconds: float) -> None:
        self._measured_tokens += tokens
        self._measured_seconds += seconds
        if self._measured_tokens > 2 * _HALF_LIFE:
            self._measured_tokens /= 2
            self._measured_seconds /= 2

    def _fail(self, runs: list[WaitingRun], error: Exception) -> None:
        with self._lock:
            for run in runs:
                if not run.ticket.end.done():
                    self._waiting.drop(run.ticket)
                    run.ticket.end.set_exception(error)


def _merged(runs: list[WaitingRun]) -> TokenBatch:
    if len(runs) == 1:
        return runs[0].batch
    return TokenBatch(
        np.concatenate([run.batch.input_ids for run in runs]),
        np.concatenate([run.batch.attention_mask for run in runs]),
    )


def _busy_seconds(runs: list[WaitingRun]) -> float:
    """Return the seconds in which at least one of the runs was at the model."""
    total = until = 0.0
    for began, ended in sorted((run.began, run.ended) for run in runs):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total
