"""The engine computes vectors of texts, with a small model and with a real one."""

import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedder.core.embedding_request import Embeddings, EmbedRequest, Inputs
from embedder.core.engine import Engine, truncate_vectors
from embedder.core.errors import InferenceError, InvalidFieldError, OutOfTimeError
from embedder.core.model_runner import RunResult, TokenBatch
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of

TEXTS = st.lists(
    st.text(st.sampled_from("abc 😀é\n"), min_size=1, max_size=12).filter(str.strip),
    min_size=1,
    max_size=12,
)
FIXTURE_IS_FRESH_ENOUGH = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@FIXTURE_IS_FRESH_ENOUGH
@given(texts=TEXTS)
def test_a_batch_is_its_texts_one_by_one(make_engine, texts):
    """Each vector is at its text's position and equals the vector of the text alone."""
    engine = make_engine(max_tokens=32)
    batch = engine.embed(texts)
    for text, vector, tokens in zip(texts, batch.vectors, batch.tokens, strict=True):
        alone = engine.embed([text])
        np.testing.assert_array_equal(vector, alone.vectors[0])
        assert tokens == alone.tokens[0]


def test_repeated_texts_are_embedded_once(make_engine, session):
    """Equal texts in one request are computed once and counted as repeats."""
    embeddings = make_engine().embed(["a", "b", "a", "a"])
    assert session.shapes == [(2, 4)]
    assert embeddings.repeats == 2
    assert embeddings.cache_hits == 0
    np.testing.assert_array_equal(embeddings.vectors[0], embeddings.vectors[3])


def test_the_cache_answers_repeats_across_requests(make_engine, session):
    """A cached vector is reused in later requests, with any dimensions."""
    engine = make_engine(cache_entries=10)
    pair = engine.embed(["a", "b"])
    again = engine.embed(["b", "c", "b"], dimensions=8)
    assert session.shapes == [(2, 4), (1, 4)]
    assert again.cache_hits == 1
    assert again.repeats == 1
    np.testing.assert_array_equal(again.vectors[0], truncate_vectors(pair.vectors, 8)[1])


def test_a_prompt_makes_another_key(make_engine, session):
    """The same text with another prompt has another cache key."""
    engine = make_engine(cache_entries=10, prompts={"query": "query: "})
    plain, prompted = engine.embed(["a"]), engine.embed(["a"], prompt="query")
    assert len(session.shapes) == 2
    assert not np.array_equal(plain.vectors, prompted.vectors)


def test_a_truncated_text_does_not_answer_for_the_whole(make_engine):
    """A text that was truncated once is still refused when truncation is off."""
    engine = make_engine(cache_entries=10, max_tokens=4)
    engine.embed(["a b c d"], truncate="right")
    with pytest.raises(Exception, match="has 6 tokens"):
        engine.embed(["a b c d"])


def test_inputs_are_run_longest_first_and_answered_in_order(make_engine, session):
    """Runs are sorted by length, and the vectors are returned in the order of the request."""
    engine = make_engine(max_tokens=400)
    embeddings = engine.embed(["a", "b " * 300, "c"])
    assert session.shapes == [(1, 302), (2, 4)]
    assert embeddings.tokens == [3, 302, 3]
    assert embeddings.runs == [1, 2]
    assert (embeddings.computed_tokens, embeddings.padding_tokens) == (310, 2)


@pytest.mark.parametrize("dimensions", [32, 16, 8])
def test_a_smaller_vector_is_the_cut_one_brought_to_length_one(make_engine, dimensions):
    """Matryoshka vectors are truncated and then scaled to length 1."""
    engine = make_engine()
    full_size = engine.embed(["a b"]).vectors
    cut = engine.embed(["a b"], dimensions=dimensions)
    expected = full_size[:, :dimensions] / np.linalg.norm(full_size[:, :dimensions])
    assert cut.vectors.dtype == np.float32
    np.testing.assert_allclose(cut.vectors, expected, rtol=1e-6)
    assert cut.vector_space.endswith(f"/{dimensions}")


def test_without_renormalising_it_is_another_space(make_engine):
    """Without normalization truncated vectors have another vector space, and full ones do not."""
    engine = make_engine()
    request = EmbedRequest(Inputs(texts=["a"]), dimensions=8, normalize=False)
    cut = engine.embed_request(request)
    np.testing.assert_array_equal(cut.vectors, engine.embed(["a"]).vectors[:, :8])
    assert cut.vector_space == engine.vector_space(8) + "/unnormalized"
    full_size = engine.embed_request(request._replace(dimensions=None))
    assert full_size.vector_space == engine.vector_space()


def test_every_vector_is_cut_to_length_one():
    """Also if there are as many as dimensions; a zero vector stays one, so it has no NaN."""
    vectors = np.random.default_rng(2).standard_normal((8, 32)).astype(np.float32)
    vectors[7] = 0
    cut = truncate_vectors(vectors, 8)
    assert cut.shape == (8, 8)
    np.testing.assert_allclose(np.linalg.norm(cut, axis=1), [1] * 7 + [0], rtol=1e-6)


def test_a_dimension_that_is_not_the_models_is_refused(make_engine):
    """The error lists the model's dimensions."""
    with pytest.raises(InvalidFieldError, match="one of 32, 16, 8; found 20"):
        make_engine().embed(["a"], dimensions=20)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_vector_that_is_not_finite_is_never_answered(make_engine, session, value):
    """A vector with NaN or infinity raises an error and is not cached."""
    engine = make_engine(cache_entries=10)
    session.value = value
    with pytest.raises(InferenceError):
        engine.embed(["a"])
    session.value = None
    assert np.isfinite(engine.embed(["a"]).vectors).all()


def test_a_failing_model_is_told_as_such(make_engine, session):
    """Every exception of the runtime becomes an InferenceError with the original as its cause."""
    session.failure = RuntimeError("allocation failed")
    with pytest.raises(InferenceError) as caught:
        make_engine().embed(["a"])
    assert caught.value.__cause__ is session.failure


def test_a_request_that_cannot_be_finished_is_refused_in_time(make_engine, session):
    """The error explains the problem, whereas a Lambda timeout would be a bare 502."""
    engine = make_engine()
    request = EmbedRequest(Inputs(texts=["a"]), deadline=time.monotonic() - 1)
    with pytest.raises(OutOfTimeError, match=r"needs more time than the 0\.0 s left"):
        engine.embed_request(request)
    assert session.shapes == []


class Clock:
    """A clock that only advances when the model runs."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return the simulated time."""
        return self.now

    perf_counter = monotonic


class TimedSession(HashSession):
    """A session with runs that take a fixed number of seconds per token."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock
        self.rate = 0.001

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Advance the clock and return the vectors."""
        self.clock.now += input_ids.size * self.rate
        return super().run(input_ids, attention_mask)


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> tuple[Engine, TimedSession]:
    """Return an engine and its session in simulated time, without a cache, for up to 512 tokens."""
    clock = Clock()
    for module in ("engine", "loaded_model", "model_runner"):
        monkeypatch.setattr(f"embedder.core.{module}.time", clock)
    session = TimedSession(clock)
    return Engine(manifest_of(max_tokens=512), WordTokenizer(), session), session


def ask(engine: Engine, session: TimedSession, texts: list[str], *, seconds: float) -> Embeddings:
    deadline = session.clock.now + seconds
    return engine.embed_request(EmbedRequest(Inputs(texts=texts), deadline=deadline))


LONG = "word " * 400
LONGS = [f"{LONG} {number}" for number in range(20)]


#: Earlier requests of one text, each with its seconds for a token; then a request's texts, its
#: seconds, and their tokens.
TRIED: dict[str, tuple[list[tuple[str, float]], list[str], float, list[int]]] = {
    "without measured runs, in the last half second": ([], ["a"], 0.5, [3]),
    "after a cold first run of 0.9 s for 4 tokens": ([("hi", 0.9 / 4)], [LONG], 30, [402]),
    "with most of its time left, whatever was measured": (
        [(text, 1.0) for text in LONGS[:5]],
        [LONG],
        30,
        [402],
    ),
    "runs of short texts say nothing of long ones": (
        [(f"w{number}", 1.0) for number in range(10)],
        LONGS[:2],
        30,
        [403, 403],
    ),
}


@pytest.mark.parametrize(("earlier", "texts", "seconds", "tokens"), TRIED.values(), ids=TRIED)
def test_a_request_is_tried(*, timed, earlier, texts, seconds, tokens):
    """Only several comparable runs justify a refusal, and never that of a request with time."""
    engine, session = timed
    for text, session.rate in earlier:
        ask(engine, session, [text], seconds=3000)
    session.rate = 0.001
    assert ask(engine, session, texts, seconds=seconds).tokens == tokens


def test_a_batch_is_refused_once_its_own_runs_say_so(timed):
    """At 0.4 s per run, 20 runs do not fit into 3 s, and the seventh is the last one computed."""
    engine, session = timed
    with pytest.raises(OutOfTimeError, match=r"more time than the 0\.2 s left"):
        ask(engine, session, LONGS, seconds=3)
    assert len(session.shapes) == 7


@pytest.mark.parametrize("spent", [14, 16])
def test_a_first_run_with_less_than_half_of_the_time_left_is_predicted(timed, monkeypatch, spent):
    """Tokenizing, or waiting for another request, has taken the rest."""
    engine, session = timed
    session.rate = 10.0
    for number in range(9):
        ask(engine, session, [f"w{number}"], seconds=300)
    session.rate = 0.001
    encode = engine.request_tokenizer.encode

    def slow(request):
        session.clock.now += spent
        return encode(request)

    monkeypatch.setattr(engine.request_tokenizer, "encode", slow)
    with pytest.raises(OutOfTimeError) if spent > 15 else nullcontext():
        ask(engine, session, ["hi"], seconds=30)


def test_a_refusal_does_not_freeze_the_estimate(timed):
    """A request refused because of slow earlier runs succeeds when it is sent again."""
    engine, session = timed
    session.rate = 10.0
    for number in range(9):
        ask(engine, session, [f"w{number}"], seconds=300)
    session.rate = 0.001
    with pytest.raises(OutOfTimeError, match=r"29\.6 s left"):
        ask(engine, session, [LONG, "hi"], seconds=30)
    assert ask(engine, session, [LONG, "hi"], seconds=30).tokens == [402, 3]


def test_warming_leaves_nothing_behind(make_engine, session):
    """Warming runs the model and leaves the cache empty."""
    engine = make_engine(cache_entries=10)
    engine.warm()
    assert len(session.shapes) == 1
    assert len(engine.cache) == 0


SENTENCES = [
    "How do I parse a date out of a string?",
    "datetime.strptime(date_string, format)",
    "x",
    "Der schnelle braune Fuchs springt über den faulen Hund. " * 6,
    "日本語のテキスト",
    "emoji 😀😀 and\ttabs\nand lines",
    "a b c d e f g h i j k l m n o p " * 10,
]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_real_batch_is_its_texts_one_by_one(minilm_artifact, threads):
    """Each vector is bit for bit equal to the vector of the text alone.

    The padded length depends only on the text, and each row has its own scale. Threads divide the
    rows and not the terms of a sum, so their number does not change the vectors.
    """
    minilm = Engine.load(minilm_artifact)
    alone = np.concatenate([minilm.embed([text]).vectors for text in SENTENCES])
    batch = Engine.load(minilm_artifact, threads=threads).embed(SENTENCES).vectors
    np.testing.assert_array_equal(batch, alone)


class Together(HashSession):
    """A session that gets all batches of a request at once, as the server's queue does."""

    error: Exception | None = None
    deadlines: tuple[float | None, ...] = ()

    def run_all(self, batches: Iterable[TokenBatch], *, deadline: float | None = None) -> RunResult:
        """Run one batch after the other."""
        self.deadlines += (deadline,)
        if self.error is not None:
            raise self.error
        return RunResult([self.run(*batch) for batch in batches], queue_seconds=0.0)


def engine_of(session: HashSession, **options: Any) -> Engine:
    return Engine(manifest_of(), WordTokenizer(), session, **options)


def test_a_session_for_many_requests_gets_all_runs_at_once():
    """It gets the deadline too, and the vectors are those of one run after the other."""
    texts = ["a", "b c", "d e f g", "h", "i j k l m n o p q"]
    session = Together()
    request = EmbedRequest(Inputs(texts=texts), deadline=5.0)
    together = engine_of(session, run_tokens=8).embed_request(request)
    assert session.deadlines == (5.0,)
    np.testing.assert_array_equal(together.vectors, engine_of(HashSession()).embed(texts).vectors)
    assert together.runs == [1, 1, 1, 2]


def test_time_in_the_queue_is_not_time_of_the_model():
    """A request's time in the queue is reported next to the time of its runs."""

    class Slow(Together):
        def run_all(
            self, batches: Iterable[TokenBatch], *, deadline: float | None = None
        ) -> RunResult:
            return super().run_all(batches, deadline=deadline)._replace(queue_seconds=1000.0)

    timings = engine_of(Slow()).embed(["a"]).timings
    assert timings.queue == 1000
    assert timings.inference < 0


@pytest.mark.parametrize(
    ("raised", "seen"),
    [(OutOfTimeError("The queue is long."), OutOfTimeError), (RuntimeError(), InferenceError)],
)
def test_the_queues_own_errors_reach_the_caller(raised, seen):
    """An error for the caller stays as it is; one of the runtime becomes an inference error."""
    session = Together()
    session.error = raised
    with pytest.raises(seen):
        engine_of(session).embed(["a"])


def test_a_request_that_the_cache_answers_does_not_queue():
    """Only a request with something to compute reaches the session."""
    session = Together()
    engine = engine_of(session, cache_entries=4)
    engine.embed(["a"])
    engine.embed(["a"])
    assert len(session.deadlines) == 1


def test_threads_may_share_an_engine(make_engine):
    """Each thread gets the vectors that a thread alone gets, with a cache that all of them fill."""
    texts = [f"text {number % 37} of {number % 11}" for number in range(120)]
    alone = make_engine().embed(texts).vectors
    shared = make_engine(cache_entries=8)
    with ThreadPoolExecutor(8) as pool:
        rows = list(pool.map(lambda text: shared.embed([text]).vectors[0], texts))
    np.testing.assert_array_equal(np.stack(rows), alone)
