"""Requests on time, whatever becomes of those before them."""

import asyncio
import threading
import time
from collections import Counter

import httpx
import numpy as np
import pytest

from embedding_client.errors import CredentialsError
from embedding_client.load_test.report import percentiles
from embedding_client.load_test.sender import End, Kind, Sender
from embedding_client.load_test.traffic import Plan, make_plan
from embedding_client.signing import SigV4Auth

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
        async def sent():
            sender = Sender(
                traffic,
                url=f"{url or served.url}/",
                auth=auth or SigV4Auth(),
                connections=connections,
                timeout=timeout,
                seed=0,
            )
            for seconds in stops:
                asyncio.get_running_loop().call_later(seconds, sender.stop)
            await sender.run()
            return sender

        return asyncio.run(sent())

    return run


def kinds(sender):
    return Counter(outcome.kind for outcome in sender.outcomes)


def test_each_request_is_signed_sent_once_and_answered(send, served):
    """The endpoint verifies the signatures, and counts the tokens."""
    sender = send(evenly(20, 0.4))
    assert kinds(sender) == {Kind.OK: 20}
    assert len(served.answers.received) == 20
    assert all(outcome.tokens == 8 for outcome in sender.outcomes)
    assert sender.end is End.TIME


def test_no_request_is_sent_before_it_is_due(send):
    """Nor waits for the answers before it: ten are under way at the same time."""
    sender = send(evenly(20, 0.4))
    assert all(outcome.due <= outcome.taken <= outcome.sent for outcome in sender.outcomes)
    assert all(outcome.sent <= outcome.ended for outcome in sender.outcomes)


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
    assert kinds(sender) == {
        Kind.THROTTLED: 10,
        Kind.FAILED: 10,
        Kind.REFUSED: 10,
        Kind.OK: 10,
    }
    assert len(served.answers.received) == 40


@pytest.mark.parametrize(
    "body",
    [{"embeddings": []}, {"tokens": 8}, ["no object"], {"embeddings": ["A"], "tokens": None}],
)
def test_a_200_without_vectors_is_no_success(send, served, body):
    """Some proxies answer every request with 200."""
    served.answers.answer = lambda *_: answered(200, body)
    assert kinds(send(evenly(3, 0.1))) == {Kind.FAILED: 3}


def test_cold_starts_are_counted_by_the_endpoints_header(send, served):
    """The embedder sends it with the first response of an execution environment."""
    served.answers.cold = {0, 3}
    sender = send(evenly(10, 0.2))
    assert sum(outcome.cold for outcome in sender.outcomes) == 2


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
    sender = send(make_plan(rate=200, seconds=60, tokens=(8, 8), most=15, seed=0))
    assert (sender.end, len(served.answers.received)) == (End.REQUESTS, 15)


def test_the_time_ends_the_test(send, served):
    """Requests that are due later are not sent, even if the generator is behind."""
    sender = send(evenly(100, 0.2, within=0.1))
    assert sender.end is End.TIME
    assert len(served.answers.received) < 100


def test_a_stop_ends_the_test(send, served):
    """What was sent is answered, and the rest of the plan is not sent."""
    sender = send(evenly(2000, 20.0), stops=[0.5])
    assert sender.end is End.INTERRUPTED
    assert len(sender.outcomes) == len(served.answers.received) < 2000


def test_requests_without_an_answer_at_the_end_are_outcomes_too(send, served):
    """One is under way, the others wait for its connection; none of them is lost.

    The second stop, which is Ctrl-C once more, does not wait for the answer.
    """
    release = threading.Event()

    def hang(number, event):
        release.wait(60)
        return vectors(number, event)

    served.answers.answer = hang
    sender = send(evenly(6, 0.2), connections=1, stops=[0.5, 0.6])
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
    threading.Timer(1.0, free.set).start()
    sender = send(evenly(6, 0.2), connections=1, stops=[0.5])
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
