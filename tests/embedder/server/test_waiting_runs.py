"""The order in which runs that wait are taken."""

import random

import numpy as np
import pytest

from embedder.core.model_runner import TokenBatch
from embedder.server.waiting_runs import Ticket, WaitingRun, WaitingRuns

NAMES: dict[Ticket, str] = {}


def request(name: str, texts: int, length: int, *, runs: int = 1, key: str = "") -> Ticket:
    """Return a request with a name, of runs that all have some texts of one padded length."""
    ticket, ids = Ticket(key), np.zeros((texts, length), dtype=np.int64)
    ticket.runs = [WaitingRun(ticket, TokenBatch(ids, ids + 1)) for _ in range(runs)]
    NAMES[ticket] = name
    return ticket


def waiting_runs(run_tokens: int, *requests: Ticket) -> WaitingRuns:
    waiting = WaitingRuns(run_tokens)
    for ticket in requests:
        waiting.add(ticket.runs)
    return waiting


def order(waiting: WaitingRuns) -> list[list[str]]:
    """Take everything, and return the names of requests whose runs were taken together."""
    names = []
    while waiting:
        names.append([NAMES[run.ticket] for run in waiting.take()])
    return names


#: The tokens of a run, the requests, and which of them are taken together.
ORDERS: dict[str, tuple[int, list[Ticket], list[list[str]]]] = {
    "the first that came": (8, [request(name, 1, 8) for name in "abc"], [["a"], ["b"], ["c"]]),
    "a request of one run before a list that came first": (
        256,
        [request("list", 32, 8, runs=2), request("single", 1, 12)],
        [["single"], ["list"], ["list"]],
    ),
    "a list after three others, which may go on": (
        8,
        [request("list", 1, 8, runs=2), *(request(str(number), 1, 8) for number in range(7))],
        [["0"], ["1"], ["2"], ["list"], ["3"], ["4"], ["5"], ["list"], ["6"]],
    ),
    # Of another length, vectors would change.
    "those of one padded length together, up to the tokens of a run": (
        32,
        [request("0", 1, 8), request("other", 1, 12), *(request(name, 1, 8) for name in "1234")],
        [["0", "1", "2", "3"], ["other"], ["4"]],
    ),
    "what does not fit is left, and the next that fits is taken": (
        32,
        [request("first", 1, 8), request("large", 4, 8), request("last", 1, 8)],
        [["first", "last"], ["large"]],
    ),
    "no run of a list with a single one, which would wait for it": (
        256,
        [request("list", 1, 8, runs=2), request("single", 1, 8)],
        [["single"], ["list", "list"]],
    ),
    # The one with more runs, which also came first, gets no more of the model.
    "the lists of two keys in turn": (
        256,
        [request("a", 32, 8, runs=4, key="a"), request("b", 32, 8, runs=2, key="b")],
        [["a"], ["b"], ["a"], ["b"], ["a"], ["a"]],
    ),
    # Runs join others in turn as well: half of the tokens are each key's.
    "no more of a flood than its part of a run": (
        64,
        [
            *(request("flood", 1, 8, key="a") for _ in range(12)),
            *(request("b", 1, 8, key="b") for _ in range(4)),
        ],
        [["flood", "b"] * 4, ["flood"] * 8],
    ),
    "one run over the tokens of a run": (32, [request("long", 1, 500)], [["long"]]),
}


@pytest.mark.parametrize(("run_tokens", "requests", "expected"), ORDERS.values(), ids=ORDERS)
def test_runs_are_taken_in_order(run_tokens, requests, expected):
    """Small requests go first, and what is taken together has one length."""
    assert order(waiting_runs(run_tokens, *requests)) == expected


def test_a_text_is_done_within_two_runs_whatever_other_keys_send():
    """It waits for one that has begun, and its own. Two workers, and no time but the model's."""
    waiting, rng = WaitingRuns(256), random.Random(1)
    clock, ends, arrived, longest, text = 0.0, [0.0, 0.0], 0.0, 0.0, None
    for _ in range(5000):
        before, clock = clock, min(ends)
        while waiting.tokens["greedy"] < 100 * 256:
            waiting.add(request("list", 32, 8, runs=30, key="greedy").runs)
        while waiting.tokens["flood"] < 16 * 16:
            waiting.add(request("flood", 1, 4 * rng.randint(2, 5), key="flood").runs)
        if not waiting.tokens["full"]:
            waiting.add(request("full", 1, 256, key="full").runs)
        if text is None:
            arrived, text = rng.uniform(before, clock), request("text", 1, 12, key="text").runs[0]
            waiting.add([text])
        taken = waiting.take()
        end = ends[ends.index(clock)] = clock + sum(run.tokens for run in taken) / 256
        if text in taken:
            longest, text = max(longest, end - arrived), None
    assert 1 < longest <= 2


def test_a_key_that_comes_back_has_no_credit():
    """The time in which it asked for nothing is over: it takes turns from then on."""
    waiting = waiting_runs(8, *(request("a", 1, 8, key="a") for _ in range(10)))
    for _ in range(5):
        waiting.take()
    for _ in range(5):
        waiting.add(request("b", 1, 8, key="b").runs)
    assert "".join(name for (name,) in order(waiting)) == "bababababa"


def test_tokens_are_those_that_wait():
    """They count padding, and go down when runs are taken or dropped."""
    list_of_b = request("b", 1, 12, runs=2, key="b")
    waiting = waiting_runs(32, request("a", 2, 8, key="a"), list_of_b)
    assert (waiting.tokens["a"], waiting.tokens["b"], len(waiting)) == (16, 24, 3)
    # While b's are run, so are as many of a.
    assert [waiting.tokens_until_done(key) for key in "abc"] == [32, 40, 0]
    waiting.drop(list_of_b)
    assert (waiting.tokens.total(), len(waiting)) == (16, 1)
    waiting.take()
    assert (waiting.tokens.total(), len(waiting)) == (0, 0)
