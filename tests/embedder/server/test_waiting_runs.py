"""The order of waiting runs, and which of them run together."""

import numpy as np
import pytest

from embedder.core.runtimes import Batch
from embedder.server.waiting_runs import WaitingRun, WaitingRuns


def run(owner: str, texts: int, tokens: int, caller: str = "") -> WaitingRun:
    ids = np.zeros((texts, tokens), dtype=np.int64)
    return WaitingRun(owner, Batch(ids, ids + 1), caller)


def owners(waiting: WaitingRuns) -> list[list[str]]:
    """Take everything, and return the owners of runs that were taken together."""
    taken = []
    while waiting:
        taken.append([run.owner for run in waiting.take()])
    return taken


#: The budget, the runs (owner, texts, tokens, due), and the owners that are taken together.
ORDERS: dict[str, tuple[int, list[tuple[str, int, int, float]], list[list[str]]]] = {
    "the first that is due": (
        256,
        [("list", 32, 8, 3), ("long", 1, 100, 2), ("single", 1, 4, 1)],
        [["single"], ["long"], ["list"]],
    ),
    "of equal ones, the first that came": (
        8,
        [(owner, 1, 8, 1) for owner in "abc"],
        [["a"], ["b"], ["c"]],
    ),
    # Of another length, vectors would change.
    "those of one padded length together, within the budget": (
        32,
        [*((str(number), 1, 8, number) for number in range(5)), ("other", 1, 12, 0.5)],
        [["0", "1", "2", "3"], ["other"], ["4"]],
    ),
    "what does not fit is left, and the next that fits is taken": (
        32,
        [("first", 1, 8, 1), ("list", 4, 8, 2), ("last", 1, 8, 3)],
        [["first", "last"], ["list"]],
    ),
    "a single text does not wait for the run of a list, which gains nothing": (
        256,
        [("single", 1, 8, 1), ("list", 20, 8, 2), ("few", 8, 8, 3)],
        [["single", "few"], ["list"]],
    ),
    "a single text may join the run of a list": (
        256,
        [("list", 20, 8, 1), ("single", 1, 8, 2)],
        [["list", "single"]],
    ),
    "one run over the budget": (32, [("long", 1, 500, 1)], [["long"]]),
}


@pytest.mark.parametrize(("budget", "runs", "taken"), ORDERS.values(), ids=ORDERS)
def test_runs_are_taken_in_order(budget, runs, taken):
    """The order is that of the due times; what is taken together has one length."""
    waiting = WaitingRuns(budget)
    for owner, texts, tokens, due in runs:
        waiting.add(run(owner, texts, tokens), due=due)
    assert owners(waiting) == taken


def test_tokens_are_those_that_wait():
    """They count padding, and go down when runs are taken or dropped."""
    waiting = WaitingRuns(32)
    waiting.add(run("a", 2, 8), due=1.0)
    waiting.add(run("b", 1, 12), due=2.0)
    waiting.add(run("b", 1, 8), due=3.0)
    assert (waiting.shares.total, len(waiting)) == (36, 3)
    waiting.drop("b")
    assert (waiting.shares.total, len(waiting)) == (16, 1)
    waiting.take()
    assert (waiting.shares.total, len(waiting), bool(waiting)) == (0, 0, False)


def test_a_text_goes_before_the_lists_of_other_callers():
    """Its caller has had the least with it, whenever it comes and however early the others do."""
    waiting = WaitingRuns(256)
    for number in range(4):
        waiting.add(run(f"a's list {number}", 32, 8, "a"), due=number)
        waiting.add(run(f"b's list {number}", 32, 8, "b"), due=number)
    waiting.take()
    waiting.add(run("c's text", 1, 12, "c"), due=9.0)
    assert owners(waiting)[:1] == [["c's text"]]


def test_callers_with_lists_take_turns():
    """One with more runs, or with runs that are due earlier, gets no more of the model."""
    waiting = WaitingRuns(256)
    for number in range(6):
        waiting.add(run(f"a{number}", 32, 8, "a"), due=number)
    for number in range(3):
        waiting.add(run(f"b{number}", 16, 16, "b"), due=100 + number)
    taken = [one for (one,) in owners(waiting)]
    assert taken == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "a4", "a5"]


def test_a_flood_of_texts_takes_no_more_than_its_part_of_a_run():
    """Merged runs are taken in turn as well: half of the tokens are each caller's."""
    waiting = WaitingRuns(64)
    for number in range(20):
        waiting.add(run("flood", 1, 8, "a"), due=number)
    for number in range(4):
        waiting.add(run("text", 1, 8, "b"), due=100 + number)
    assert [sorted(one).count("text") for one in owners(waiting)] == [4, 0, 0]


def test_a_caller_that_comes_back_has_no_credit():
    """The time in which it asked for nothing is nobody's: it takes turns from then on."""
    waiting = WaitingRuns(8)
    for number in range(10):
        waiting.add(run("a", 1, 8, "a"), due=number)
    assert [waiting.take()[0].owner for _ in range(5)] == ["a"] * 5
    for number in range(5):
        waiting.add(run("b", 1, 8, "b"), due=100 + number)
    taken = [one for (one,) in owners(waiting)]
    assert taken[:4].count("b") <= 3
    assert taken == ["b", "a", "b", "a", "b", "a", "b", "a", "b", "a"]
