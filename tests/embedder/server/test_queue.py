"""The queue below the engine: what runs together, in which order, and what becomes of failures."""

import threading
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest

from embedder.core.errors import OutOfTimeError, OverloadedError, ShuttingDownError
from embedder.core.model_runner import InferenceSession, TokenBatch
from embedder.server.options import ServerOptions
from embedder.server.queue import BatchingSession, ClientGoneError
from embedder.server.waiting_runs import Ticket
from tests.embedder.server.running import GatedSession
from tests.embedder.small_model import HashSession
from tests.fixtures.waiting import PATIENCE, wait_until

MakeQueue = Callable[..., BatchingSession]


@pytest.fixture
def make_queue() -> Iterator[MakeQueue]:
    """Return a function that makes a queue, which is closed at the end."""
    queues: list[BatchingSession] = []

    def make(
        session: InferenceSession, *, workers: int = 1, queue_seconds: float = 1e6
    ) -> BatchingSession:
        options = ServerOptions(workers=workers, max_queue_seconds=queue_seconds)
        queues.append(BatchingSession(session, options))
        return queues[-1]

    yield make
    for queue in queues:
        queue.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as pool:
        yield pool


def batch(seed: int, *, texts: int = 1, tokens: int = 8) -> TokenBatch:
    ids = np.random.default_rng(seed).integers(1, 1000, (texts, tokens))
    return TokenBatch(ids, np.ones_like(ids))


def ask(queue: BatchingSession, *batches: TokenBatch) -> list[npt.NDArray[np.float32]]:
    """Embed as the thread of a request does."""
    with queue.request(Ticket()):
        return list(queue.run_all(batches).vectors)


class Held(NamedTuple):
    """A queue with one worker, which computes its first run until the session is opened."""

    queue: BatchingSession
    session: GatedSession
    threads: ThreadPoolExecutor
    running: Future

    def ask(self, batch: TokenBatch) -> Future:
        """Embed in a thread; the request waits."""
        return self.threads.submit(ask, self.queue, batch)

    def wait_for(self, runs: int) -> None:
        """Wait until this many runs wait."""
        wait_until(lambda: self.queue.waiting_runs == runs)


@pytest.fixture
def held(make_queue: MakeQueue, threads: ThreadPoolExecutor, request) -> Iterator[Held]:
    session = getattr(request, "param", GatedSession)()
    queue = make_queue(session)
    answer = threads.submit(ask, queue, batch(0, tokens=4))
    session.wait_for_run()
    yield Held(queue, session, threads, answer)
    session.open()  # The threads end before the queue.


def test_runs_that_wait_are_merged(held):
    """Runs of one padded length become one run, and each request gets its own rows.

    No tasks are left in the pool of workers, where they would become more as long as runs wait.
    """
    batches = [batch(seed, texts=1 + seed % 3) for seed in range(1, 7)]
    answers = [held.ask(texts) for texts in batches]
    held.wait_for(6)
    assert held.queue._threads._work_queue.empty()
    held.session.open()
    for texts, answer in zip(batches, answers, strict=True):
        np.testing.assert_array_equal(answer.result(PATIENCE)[0], HashSession().run(*texts))
    assert held.session.shapes == [(1, 4), (12, 8)]


def test_an_answered_request_leaves_nothing(make_queue):
    """Its arrays, of megabytes for a list, are gone before Python looks for cycles."""
    texts = batch(1)
    arrays = [weakref.ref(array) for array in texts]
    ask(make_queue(HashSession()), texts)
    del texts
    wait_until(lambda: [array() for array in arrays] == [None, None])


def test_a_list_uses_all_workers(make_queue, threads):
    """The runs of one request are computed at the same time."""
    session = GatedSession()
    queue = make_queue(session, workers=2)
    batches = [batch(n, texts=32) for n in range(4)]
    answer = threads.submit(ask, queue, *batches)
    session.wait_for_run()
    session.wait_for_run()
    session.open()
    for texts, vectors in zip(batches, answer.result(PATIENCE), strict=True):
        np.testing.assert_array_equal(vectors, HashSession().run(*texts))


class PickySession(GatedSession):
    """A session that fails for batches with this id in them."""

    bad_id = 77

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Compute, or fail."""
        if (input_ids == self.bad_id).any():
            raise RuntimeError("the text was ...")
        return super().run(input_ids, attention_mask)


@pytest.mark.parametrize("held", [PickySession], indirect=True)
def test_a_failure_in_company_is_only_its_own(held):
    """A merged run that fails is run again one by one: the other requests get their vectors."""
    good = [held.ask(batch(seed)) for seed in (1, 2)]
    bad_ids = np.full((1, 8), PickySession.bad_id)
    bad = held.ask(TokenBatch(bad_ids, np.ones_like(bad_ids)))
    held.wait_for(3)
    held.session.open()
    for seed, answer in zip((1, 2), good, strict=True):
        np.testing.assert_array_equal(answer.result(PATIENCE)[0], HashSession().run(*batch(seed)))
    with pytest.raises(RuntimeError):
        bad.result(PATIENCE)
    ask(held.queue, batch(3))


def test_a_request_may_come_to_the_queue_again(make_queue):
    """A sparse encoder's list comes in blocks: each gets its own rows, until its client goes."""
    queue = make_queue(HashSession())
    ticket = Ticket()
    with queue.request(ticket):
        for seed in (1, 2):
            (rows,) = queue.run_all([batch(seed)]).vectors
            np.testing.assert_array_equal(rows, HashSession().run(*batch(seed)))
        queue.cancel(ticket)
        with pytest.raises(ClientGoneError):
            queue.run_all([batch(3)])


def test_lists_of_a_key_are_prepared_one_after_the_other(make_queue, threads):
    """A small request, and another key's, do not wait; a turn ends when the runs are queued."""
    queue = make_queue(HashSession())
    with queue.request(Ticket("a"), in_turn=True):
        for key, in_turn in (("a", False), ("b", True)):
            threads.submit(_prepare, queue, key, in_turn).result(PATIENCE)
        following = threads.submit(_prepare, queue, "a")
        with pytest.raises(TimeoutError):
            following.result(0.05)
        queue.run_all([batch(1)])
        following.result(PATIENCE)


def test_a_list_gives_its_turn_back_however_it_ends(make_queue):
    """Its client has gone, it fails, the lists before it filled the queue, or took its time."""
    queue = make_queue(HashSession(), queue_seconds=8)
    queue._measure(1, seconds=1)
    gone = Ticket("a")
    queue.cancel(gone)
    with pytest.raises(ClientGoneError), queue.request(gone, in_turn=True):
        raise AssertionError
    with pytest.raises(ValueError, match="bad"), queue.request(Ticket("a"), in_turn=True):
        raise ValueError("bad")
    queue._waiting.tokens["a"] = 8
    with pytest.raises(OverloadedError), queue.request(Ticket("a"), in_turn=True):
        raise AssertionError  # It is refused before it is tokenized.
    queue._waiting.tokens.clear()
    error = "other lists of this caller came first"
    with queue.request(Ticket("a"), in_turn=True):
        for seconds in (-1, 0.01):
            late = queue.request(Ticket("a"), in_turn=True, deadline=time.monotonic() + seconds)
            with pytest.raises(OutOfTimeError, match=error), late:
                raise AssertionError
    _prepare(queue, "a")


def _prepare(queue: BatchingSession, key: str, in_turn: bool = True) -> None:
    with queue.request(Ticket(key), in_turn=in_turn):
        pass


def test_the_time_in_the_queue_is_that_without_a_run(held):
    """Two runs at the same time count once."""
    waited = held.threads.submit(held.queue.run_all, [batch(1)])
    held.wait_for(1)
    threading.Event().wait(0.05)
    held.session.open()
    assert waited.result(PATIENCE).queue_seconds >= 0.05


def test_close_finishes_the_run_that_has_begun_and_nothing_else(held):
    """Waiting and later requests are refused while the run continues."""
    waiting = held.ask(batch(2))
    held.wait_for(1)
    closing = held.threads.submit(held.queue.close)
    for refused in (waiting, held.ask(batch(3))):
        with pytest.raises(ShuttingDownError):
            refused.result(PATIENCE)
    held.session.open()
    closing.result(PATIENCE)
    assert held.running.result(PATIENCE)
    assert held.session.shapes == [(1, 4)]


def test_the_work_of_a_key_is_bounded_in_seconds(make_queue):
    """By the pace of the last runs: at 0.5 s a token 20 tokens, or 10 if another key waits."""
    queue = make_queue(HashSession(), queue_seconds=10.0)
    queue._waiting.tokens["a"] = 10_000
    queue.check("a")  # No pace is known.
    for seconds_per_token in (5.0, 0.5):
        for _ in range(4000):
            queue._measure(256, 256 * seconds_per_token)
    queue._waiting.tokens["a"] = 21
    with pytest.raises(OverloadedError) as caught:
        queue.check("a")
    assert caught.value.headers == {"retry-after": "11"}
    assert "it has 10.5 seconds of work of this caller, and at most 10 are" in caught.value.message
    queue._waiting.tokens.update({"a": -10, "b": 100})
    with pytest.raises(OverloadedError, match="it has 11 seconds of work"):
        queue.check("a")
    queue._waiting.tokens["a"] = 9
    queue.check("a")
    queue._waiting.tokens.clear()
    refusal = queue.refusal("a", 25_165_000, "bytes", 25_165_824)  # as no power of ten
    assert "it has 25165000 bytes of this caller, and at most 25165824 are" in refusal.message
