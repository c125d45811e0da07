"""The queue below the engine: runs of many requests, a few workers, one session.

`BatchingSession` is what the engine of a server has for a session. The thread of a request gives it
all batches of the request and waits. Each worker takes the run that is next and others of its
padded length, runs the model once for them, and gives each request its rows. Nothing is delayed so
that more may come: a worker that is free takes what waits.

A request counts when its texts are tokenized, and not before: what a client only says that it will
send takes nothing from others. Python tokenizes in one thread at a time, so a caller that sends
many lists prepares them one after the other: it takes no more of the interpreter than a caller that
sends one.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from embedder.core.errors import ClientError, OutOfTimeError, ShuttingDownError
from embedder.core.model_runner import InferenceSession, RunResult, TokenBatch
from embedder.server.waiting_runs import WaitingRun, WaitingRuns

if TYPE_CHECKING:
    import numpy.typing as npt

#: A run may be overtaken for as long as this many times its request's tokens up to it would take.
_PATIENCE = 10
#: And for this part of the time that the request has left, so that its last run, too, is due
#: while there is time to run it.
_PATIENT_PART = 0.5
#: Seconds for a token, before it is measured.
_FIRST_SECONDS_PER_TOKEN = 0.0002
#: Tokens that say something: fewer are the first runs, which also read the weights.
_EVIDENCE = 1024
#: Tokens after which older runs count half: some seconds of a busy worker.
_HALF_LIFE = 1 << 14


class ClientGoneError(ClientError):
    """The client closed the connection before it had an answer."""

    code = "client_gone"


class RunTimes(NamedTuple):
    """When texts of a request were at the model, by `time.monotonic()`."""

    texts: int
    began: float
    ended: float


@dataclass(slots=True, eq=False)
class Ticket:
    """One request's place in the queue."""

    #: Who sent it: callers share the queue.
    caller: str = ""
    #: Held while the request is prepared, if it is a large one.
    turn: "threading.Lock | None" = None
    #: `time.monotonic()` when its runs came to the queue, and the number of their texts.
    entered: float = 0.0
    texts: int = 0
    #: Its runs that are over, if none failed.
    runs: list[RunTimes] = field(default_factory=list)
    cancelled: bool = False
    #: Runs that are not over.
    pending: int = 0
    error: Exception | None = None
    #: Whether the request's thread waits for `done`, which is released once.
    waits: bool = False
    done: threading.Lock = field(default_factory=threading.Lock)

    def finish(self) -> None:
        """Let the request's thread go on: all runs are over, or one failed."""
        if self.waits:
            self.waits = False
            self.done.release()


class Bounds(NamedTuple):
    """The most work that may wait."""

    #: Tokens, padding included.
    tokens: int
    #: Seconds that all workers together take for it, as measured.
    seconds: float

    def most(self, seconds_per_token: float | None) -> int:
        """Return the most tokens; of all workers together, None if not known yet."""
        if not seconds_per_token:
            return self.tokens
        return min(self.tokens, int(self.seconds / seconds_per_token))


class ThroughputEstimator:
    """Measures how long one worker takes for a token, padding included."""

    def __init__(self) -> None:
        self._tokens = self._seconds = 0.0

    def add(self, tokens: int, seconds: float) -> None:
        """Add a run."""
        self._tokens += tokens
        self._seconds += seconds
        if self._tokens > 2 * _HALF_LIFE:
            self._tokens /= 2
            self._seconds /= 2

    @property
    def seconds_per_token(self) -> float | None:
        """The mean of the last runs; None before enough was measured."""
        return self._seconds / self._tokens if self._tokens >= _EVIDENCE else None


class BatchingSession:
    """A session that many requests share, run by some worker threads; see `RunBatches`.

    At most `run_tokens` are run together; one run is always allowed. Work waits within `bounds`.
    """

    def __init__(
        self, session: InferenceSession, *, workers: int, run_tokens: int, bounds: Bounds
    ) -> None:
        self._session = session
        self._bounds = bounds
        #: Gets the texts and the tokens, padding included, of each run, in the worker's thread.
        self.observe: Callable[[int, int], None] | None = None
        self._waiting = WaitingRuns(run_tokens)
        #: By the caller's name; held by the request of it that is prepared.
        self._turns: dict[str, threading.Lock] = {}
        self._run_tokens = run_tokens
        self._throughput = ThroughputEstimator()
        self._closed = False
        #: Guards all of the above, and the tickets.
        self._changed = threading.Condition(threading.Lock())
        self._current = threading.local()
        self._workers = [
            threading.Thread(target=self._work, name=f"model-{number}", daemon=True)
            for number in range(workers)
        ]
        for worker in self._workers:
            worker.start()

    def run(
        self, input_ids: "npt.NDArray[np.int64]", attention_mask: "npt.NDArray[np.int64]"
    ) -> "npt.NDArray[np.float32]":
        """Embed a batch; see `InferenceSession.run`."""
        return self.run_all([TokenBatch(input_ids, attention_mask)]).vectors[0]

    def run_all(self, batches: Iterable[TokenBatch], *, deadline: float | None = None) -> RunResult:
        """Embed the batches of the request of this thread; see `RunBatches`.

        It is refused if they do not fit into the queue, if its client has gone, or if the deadline
        passes.
        """
        ticket: Ticket = getattr(self._current, "ticket", None) or Ticket()
        runs = [WaitingRun(ticket, batch, ticket.caller) for batch in batches]
        entered = ticket.entered = time.monotonic()
        ticket.texts = sum([len(run.batch.input_ids) for run in runs])
        self._enter(ticket, runs, entered, deadline)
        _end_turn(ticket)
        if not ticket.done.acquire(timeout=_seconds_left(deadline)):
            self._drop(ticket)
            raise OutOfTimeError(
                f"The request was not done after {time.monotonic() - entered:.1f} s at the model, "
                "and has no more time. Send it again later, or fewer or shorter texts in it."
            )
        ticket.done.release()
        _check_client(ticket)
        if ticket.error is not None:
            raise ticket.error
        ticket.runs = [RunTimes(len(run.batch.input_ids), run.began, run.ended) for run in runs]
        vectors = [run.vectors for run in runs if run.vectors is not None]
        return RunResult(vectors, time.monotonic() - entered - _busy(runs))

    def check(self, caller: str, tokens: int) -> None:
        """Refuse a request of about this many tokens before work is put into it."""
        with self._changed:
            self._check(caller, tokens)

    @contextlib.contextmanager
    def request(
        self, ticket: Ticket, *, tokens: int = 0, deadline: float | None = None
    ) -> Iterator[None]:
        """Take the batches of this thread as those of a request of about this many tokens.

        A request that is larger than a run waits until no other of its caller is prepared. It is
        refused as by `run_all`.
        """
        if tokens > self._run_tokens:
            turn = self._turns.setdefault(ticket.caller, threading.Lock())
            if not turn.acquire(timeout=_seconds_left(deadline)):
                raise OutOfTimeError(
                    "The request has no more time: other lists of this caller came first. Send it "
                    "again later."
                )
            ticket.turn = turn
        self._current.ticket = ticket
        try:
            _check_client(ticket)
            if tokens:
                self.check(ticket.caller, tokens)
            yield
        finally:
            self._current.ticket = None
            _end_turn(ticket)

    def cancel(self, ticket: Ticket) -> None:
        """Drop the runs of a request after its client has gone."""
        ticket.cancelled = True
        self._drop(ticket)

    def stop(self) -> None:
        """Take no more work, and refuse the requests with runs that wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            waiting = list(self._waiting)
        self._fail(waiting, ShuttingDownError())

    def close(self) -> None:
        """Stop, and wait for the runs that have begun: the process would abort during one."""
        self.stop()
        for worker in self._workers:
            worker.join()

    @property
    def alive(self) -> bool:
        """Whether all workers can take runs."""
        return all(worker.is_alive() for worker in self._workers)

    @property
    def waiting_runs(self) -> int:
        """The number of runs that wait."""
        with self._changed:
            return len(self._waiting)

    @property
    def waiting_tokens(self) -> int:
        """The number of tokens that wait, padding included."""
        return self._waiting.shares.total

    @property
    def seconds(self) -> float:
        """The time that the workers take for what waits; 0 before it is measured."""
        return self.waiting_tokens * (self._seconds_per_token() or 0.0)

    def _seconds_per_token(self) -> float | None:
        """Return the time of all workers together; None before it is measured."""
        seconds = self._throughput.seconds_per_token
        return seconds and seconds / len(self._workers)

    def _check(self, caller: str, tokens: int) -> None:
        if self._closed:
            raise ShuttingDownError
        seconds = self._seconds_per_token()
        most = self._bounds.most(seconds)
        self._waiting.shares.check(caller, tokens, most, seconds_each=seconds or 0.0)

    def _enter(
        self, ticket: Ticket, runs: list[WaitingRun], now: float, deadline: float | None
    ) -> None:
        with self._changed:
            if ticket.cancelled:
                return
            size = sum([run.size for run in runs])
            self._check(ticket.caller, size)
            ticket.pending = len(runs)
            ticket.waits = ticket.done.acquire()
            patience = _PATIENCE * (self._throughput.seconds_per_token or _FIRST_SECONDS_PER_TOKEN)
            if deadline is not None and size:
                patience = min(patience, _PATIENT_PART * max(0.0, deadline - now) / size)
            tokens = 0
            for run in runs:
                tokens += run.size
                self._waiting.add(run, now + patience * tokens)
            self._changed.notify(len(runs))

    def _drop(self, ticket: Ticket) -> None:
        with self._changed:
            if ticket.waits:
                self._waiting.drop(ticket)
                ticket.finish()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._closed:
                        return
                    self._changed.wait()
                runs = self._waiting.take()
            try:
                self._compute(runs)
            except Exception as error:  # The requests end, and the worker goes on.
                self._fail(runs, error)
            except BaseException as error:
                # The worker ends too, and `alive` says so.
                self._fail(runs, RuntimeError(f"A worker ended with {type(error).__name__}."))
                raise

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
        size = sum([run.size for run in runs])
        with self._changed:
            self._throughput.add(size, ended - began)
            at = 0
            for run in runs:
                count = len(run.batch.input_ids)
                run.vectors = vectors[at : at + count]
                run.began, run.ended = began, ended
                at += count
                ticket = run.owner
                ticket.pending -= 1
                if ticket.pending == 0:
                    ticket.finish()
        if self.observe is not None:
            self.observe(len(vectors), size)

    def _fail(self, runs: list[WaitingRun], error: Exception) -> None:
        with self._changed:
            for run in runs:
                if run.owner.waits:
                    run.owner.error = error
                    self._waiting.drop(run.owner)
                    run.owner.finish()


def _seconds_left(deadline: float | None) -> float:
    """Return the time to wait for a lock; -1 is for ever."""
    return -1.0 if deadline is None else max(0.0, deadline - time.monotonic())


def _check_client(ticket: Ticket) -> None:
    if ticket.cancelled:
        raise ClientGoneError("The client has closed the connection.")


def _end_turn(ticket: Ticket) -> None:
    if ticket.turn is not None:
        ticket.turn.release()
        ticket.turn = None


def _merged(runs: list[WaitingRun]) -> TokenBatch:
    if len(runs) == 1:
        return runs[0].batch
    return TokenBatch(
        np.concatenate([run.batch.input_ids for run in runs]),
        np.concatenate([run.batch.attention_mask for run in runs]),
    )


def _busy(runs: list[WaitingRun]) -> float:
    """Return the seconds in which at least one of the runs was at the model."""
    total = until = 0.0
    for began, ended in sorted((run.began, run.ended) for run in runs):
        total += max(0.0, ended - max(began, until))
        until = max(until, ended)
    return total
