"""The order of waiting runs, and which of them run together."""

import numpy as np

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


def test_the_run_that_is_due_first_is_taken_first() -> None:
    """The order is that of the due times, not that of the arrivals."""
    waiting = WaitingRuns(256)
    waiting.add(run("list", 32, 8), due=3.0)
    waiting.add(run("long", 1, 100), due=2.0)
    waiting.add(run("single", 1, 4), due=1.0)
    assert owners(waiting) == [["single"], ["long"], ["list"]]


def test_of_two_at_the_same_time_the_first_stays_first() -> None:
    """Equal due times keep the order of the arrivals."""
    waiting = WaitingRuns(8)
    for owner in ("a", "b", "c"):
        waiting.add(run(owner, 1, 8), due=1.0)
    assert owners(waiting) == [["a"], ["b"], ["c"]]


def test_runs_of_one_padded_length_are_taken_together() -> None:
    """Those of another length are not: vectors would change. The budget is not exceeded."""
    waiting = WaitingRuns(32)
    for number in range(5):
        waiting.add(run(f"short {number}", 1, 8), due=number)
    waiting.add(run("other", 1, 12), due=0.5)
    assert owners(waiting) == [["short 0", "short 1", "short 2", "short 3"], ["other"], ["short 4"]]


def test_a_large_run_does_not_keep_small_ones_from_being_merged() -> None:
    """What does not fit is left, and the next that fits is taken."""
    waiting = WaitingRuns(32)
    waiting.add(run("first", 1, 8), due=1.0)
    waiting.add(run("list", 4, 8), due=2.0)
    waiting.add(run("last", 1, 8), due=3.0)
    assert owners(waiting) == [["first", "last"], ["list"]]


def test_a_single_text_does_not_wait_for_the_run_of_a_list() -> None:
    """A large run gains nothing by being merged; if it is due first, small ones may join it."""
    waiting = WaitingRuns(256)
    waiting.add(run("single", 1, 8), due=1.0)
    waiting.add(run("list", 20, 8), due=2.0)
    waiting.add(run("few", 8, 8), due=3.0)
    assert owners(waiting) == [["single", "few"], ["list"]]
    waiting.add(run("list", 20, 8), due=1.0)
    waiting.add(run("single", 1, 8), due=2.0)
    assert owners(waiting) == [["list", "single"]]


def test_one_run_is_always_taken() -> None:
    """A run over the budget, which a long text is, runs alone."""
    waiting = WaitingRuns(32)
    waiting.add(run("long", 1, 500), due=1.0)
    assert owners(waiting) == [["long"]]


def test_tokens_are_those_that_wait() -> None:
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


def test_a_text_goes_before_the_lists_of_other_callers() -> None:
    """Its caller has had the least with it, whenever it comes and however early the others do."""
    waiting = WaitingRuns(256)
    for number in range(4):
        waiting.add(run(f"a's list {number}", 32, 8, "a"), due=number)
        waiting.add(run(f"b's list {number}", 32, 8, "b"), due=number)
    waiting.take()
    waiting.add(run("c's text", 1, 12, "c"), due=9.0)
    assert owners(waiting)[:1] == [["c's text"]]


def test_callers_with_lists_take_turns() -> None:
    """One with more runs, or with runs that are due earlier, gets no more of the model."""
    waiting = WaitingRuns(256)
    for number in range(6):
        waiting.add(run(f"a{number}", 32, 8, "a"), due=number)
    for number in range(3):
        waiting.add(run(f"b{number}", 16, 16, "b"), due=100 + number)
    taken = [one for (one,) in owners(waiting)]
    assert taken == ["a0", "b0", "a1", "b1", "a2", "b2", "a3", "a4", "a5"]


def test_a_flood_of_texts_takes_no_more_than_its_part_of_a_run() -> None:
    """Merged runs are taken in turn as well: half of the tokens are each caller's."""
    waiting = WaitingRuns(64)
    for number in range(20):
        waiting.add(run("flood", 1, 8, "a"), due=number)
    for number in range(4):
        waiting.add(run("text", 1, 8, "b"), due=100 + number)
    assert [sorted(one).count("text") for one in owners(waiting)] == [4, 0, 0]


def test_a_caller_that_comes_back_has_no_credit() -> None:
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
