"""When requests are due, their texts, and that each is sent on time."""

import asyncio
import json
import threading
import time
from collections import Counter

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.core.engine import Engine
from embedding_client._auth import SigV4Auth
from embedding_client._errors import CredentialsError
from embedding_client._load_command import percentiles
from embedding_client._load_sender import End, Kind, Plan, Sender, Texts, make_plan

from .conftest import answered, vectors


def evenly(count, seconds, *, within=None):
    """Return a plan of requests at equal distances.

    The test has a minute more, for a machine that is busy.
    """
    return Plan(
        due=np.arange(count) * seconds / count,
        tokens=np.full(count, 8),
        seconds=seconds + 60 if within is None else within,
        capped=False,
    )


@pytest.fixture
def send(served):
    """Send a plan; return the sender after its end."""

    def run(traffic, *, connections=50, timeout=30.0, url=None, auth=None, stops=()):
        async def stop(sender):
            for holds in stops:
                while not holds(sender):
                    await asyncio.sleep(0.01)
                sender.stop()

        async def sent():
            sender = Sender(
                traffic,
                url=f"{url or served.url}/",
                auth=auth or SigV4Auth(),
                connections=connections,
                timeout=timeout,
                seed=0,
            )
            stopping = asyncio.create_task(stop(sender))
            await sender.run()
            stopping.cancel()
            return sender

        return asyncio.run(sent())

    return run


def kinds(sender):
    return Counter(outcome.kind for outcome in sender.outcomes)


def test_each_request_is_signed_sent_once_and_answered(send, served):
    """Not before it is due; the endpoint verifies the signatures, and counts the tokens."""
    sender = send(evenly(20, 0.4))
    assert kinds(sender) == {Kind.OK: 20}
    assert len(served.answers.received) == 20
    assert sender.end is End.TIME
    for outcome in sender.outcomes:
        assert outcome.tokens == 8
        assert outcome.due <= outcome.taken <= outcome.sent <= outcome.ended


def test_a_stall_appears_in_the_latencies_of_all_that_were_due(send, served):
    """One answer takes a second, and all behind it on the same connection wait.

    A generator that sends the next request after an answer would count one slow request of forty,
    and a 90th percentile as if nothing had happened. Here all that were due in the first half of
    the stall took more than half a second.
    """

    def stall(number, event):
        if number == 0:
            time.sleep(1.0)
        return vectors(number, event)

    served.answers.answer = stall
    sender = send(evenly(40, 1.0), connections=1)
    latencies = [outcome.ended - outcome.due for outcome in sender.outcomes]
    assert kinds(sender) == {Kind.OK: 40}
    assert sum(latency > 0.5 for latency in latencies) >= 20
    assert percentiles(latencies)["p50"] > 400
    assert sum(outcome.waited for outcome in sender.outcomes) > 0
    # What a closed loop would report.
    assert sum(outcome.ended - outcome.sent >= 1.0 for outcome in sender.outcomes) < 20


def test_a_stall_does_not_stop_the_requests_that_are_due(send, served):
    """They arrive at the endpoint while the first is still without an answer."""
    last = threading.Event()

    def hold(number, event):
        if number == 29:
            last.set()
        elif number == 0 and not last.wait(60):
            return answered(500, {})
        return vectors(number, event)

    served.answers.answer = hold
    sender = send(evenly(30, 0.3), timeout=90)
    assert kinds(sender) == {Kind.OK: 30}


def test_throttled_failed_and_refused_requests_are_told_apart(send, served):
    """And none is sent again."""
    statuses = [429, 503, 400, 200]

    def answer(number, event):
        status = statuses[number % 4]
        return vectors(number, event) if status == 200 else answered(status, {"error": "no"})

    served.answers.answer = answer
    sender = send(evenly(40, 0.4))
    assert kinds(sender) == {Kind.THROTTLED: 10, Kind.FAILED: 10, Kind.REFUSED: 10, Kind.OK: 10}
    assert len(served.answers.received) == 40


@pytest.mark.parametrize(
    "body",
    [{"embeddings": []}, {"tokens": 8}, ["no object"], {"embeddings": ["A"], "tokens": None}],
)
def test_a_200_without_vectors_is_no_success(send, served, body):
    """Some proxies answer every request with 200."""
    served.answers.answer = lambda *_: answered(200, body)
    assert kinds(send(evenly(3, 0.1))) == {Kind.FAILED: 3}


def test_a_request_ends_at_its_timeout(send, served):
    """The others go on."""
    release = threading.Event()

    def hang(number, event):
        if number == 0:
            release.wait(60)
        return vectors(number, event)

    served.answers.answer = hang
    sender = send(evenly(5, 0.1), timeout=3.0)
    release.set()
    assert kinds(sender) == {Kind.TIMEOUT: 1, Kind.OK: 4}


def test_an_endpoint_that_is_gone_is_unreachable(send):
    """Nothing listens on the port."""
    assert kinds(send(evenly(3, 0.1), url="http://127.0.0.1:9")) == {Kind.UNREACHABLE: 3}


def test_the_limit_of_requests_ends_the_test(send, served):
    """A capped plan has no more."""
    plan = make_plan(rate=200, seconds=60, tokens=(8, 8), most=15, seed=0)
    assert plan.capped
    sender = send(plan)
    assert (sender.end, len(served.answers.received)) == (End.REQUESTS, 15)


def test_the_time_ends_the_test(send, served):
    """Requests that are due later are not sent, even if the generator is behind."""
    sender = send(evenly(100, 0.2, within=0.1))
    assert sender.end is End.TIME
    assert len(served.answers.received) < 100


def test_a_stop_ends_the_test(send, served):
    """What was sent is answered, and the rest of the plan is not sent."""
    sender = send(evenly(2000, 20.0), stops=[lambda _: len(served.answers.received) > 10])
    assert sender.end is End.INTERRUPTED
    sent = [outcome for outcome in sender.outcomes if outcome.kind is not Kind.UNSENT]
    assert len(sent) == len(served.answers.received) < 2000


def test_requests_without_an_answer_at_the_end_are_outcomes_too(send, served):
    """One is under way, the others wait for its connection; none of them is lost.

    The second stop, which is Ctrl-C once more, does not wait for the answer.
    """
    release = threading.Event()

    def hang(number, event):
        release.wait(60)
        return vectors(number, event)

    served.answers.answer = hang
    stops = [lambda sender: len(sender._open) == 6 and served.answers.received, bool]
    sender = send(evenly(6, 0.2), connections=1, stops=stops)
    release.set()
    found = kinds(sender)
    assert found.keys() == {Kind.UNANSWERED, Kind.UNSENT}
    assert found[Kind.UNANSWERED] == 1
    assert all(outcome.ended > outcome.due for outcome in sender.outcomes)


def test_nothing_more_is_sent_after_a_stop(send, served):
    """Requests that wait for a connection are not sent when it becomes free."""
    free = threading.Event()

    def hold(number, event):
        free.wait(60)
        return vectors(number, event)

    served.answers.answer = hold

    def all_wait(sender):
        begun = len(sender._open) == 6 and bool(served.answers.received)
        if begun:
            threading.Timer(0.1, free.set).start()
        return begun

    sender = send(evenly(6, 0.2), connections=1, stops=[all_wait])
    assert len(served.answers.received) == 1
    assert kinds(sender)[Kind.OK] == 1
    assert kinds(sender).keys() == {Kind.OK, Kind.UNSENT}


class Expiring(httpx.Auth):
    """Credentials that expire after some requests."""

    left = 5

    def auth_flow(self, request):
        """Sign as long as they are valid."""
        if not self.left:
            raise CredentialsError("The AWS credentials cannot be used: expired")
        self.left -= 1
        return SigV4Auth().sync_auth_flow(request)


def test_an_error_of_this_process_ends_the_test(send):
    """Such as credentials that expire; the requests sent before are in the outcomes."""
    sender = send(evenly(1000, 20.0), auth=Expiring())
    assert str(sender.failure) == "The AWS credentials cannot be used: expired"
    assert kinds(sender)[Kind.OK] == 5
    assert kinds(sender).keys() == {Kind.OK, Kind.UNSENT}


def text_of(body):
    (text,) = json.loads(body)["texts"]
    return text


@given(
    rate=st.floats(0.001, 500),
    seconds=st.floats(0.6, 60),
    most=st.integers(1, 2000),
    tokens=st.tuples(st.integers(1, 400), st.integers(1, 400)).map(sorted).map(tuple),
    seed=st.integers(0, 99),
)
def test_a_plan_keeps_its_limits(rate, seconds, most, tokens, seed):
    """Times rise within the test, lengths are in their range, and one seed gives one plan."""
    asked = {"rate": rate, "seconds": seconds, "tokens": tokens, "most": most}
    plan = make_plan(**asked, seed=seed)
    again = make_plan(**asked, seed=seed)
    assert plan.due.tolist() == again.due.tolist()
    assert plan.tokens.tolist() == again.tokens.tolist()
    assert len(plan.due) == len(plan.tokens) <= most
    assert np.all(np.diff(plan.due) >= 0)
    assert np.all((plan.due >= 0) & (plan.due < seconds))
    assert np.all((plan.tokens >= tokens[0]) & (plan.tokens <= tokens[1]))


def test_arrivals_are_those_of_independent_callers():
    """Of a Poisson process: the mean and the variance of the counts are the rate."""
    plan = make_plan(rate=20, seconds=5000, tokens=(8, 400), most=10**6, seed=0)
    counts = np.bincount(plan.due.astype(int), minlength=5000)
    assert counts.mean() == pytest.approx(20, rel=0.02)
    assert counts.var() == pytest.approx(20, rel=0.1)
    # Short texts are frequent: half of the logarithms are below the middle.
    assert np.median(plan.tokens) == pytest.approx((8 * 400) ** 0.5, rel=0.05)


def test_one_seed_gives_one_sequence_of_different_texts():
    """An endpoint's cache must not answer them."""
    one, again, other = Texts(1), Texts(1), Texts(2)
    sequence = [text_of(one.body(20)) for _ in range(50)]
    assert sequence == [text_of(again.body(20)) for _ in range(50)]
    assert len(set(sequence)) == 50
    assert text_of(other.body(20)) not in sequence


def test_the_model_counts_the_tokens_that_were_asked_for(minilm_artifact):
    """Each word is one token of the model's vocabulary, and a text has one word at least."""
    engine = Engine.load(minilm_artifact)
    texts = Texts(0)
    embedded = engine.embed([text_of(texts.body(tokens)) for tokens in (1, 3, 8, 64, 200)])
    assert list(embedded.tokens) == [3, 3, 8, 64, 200]
