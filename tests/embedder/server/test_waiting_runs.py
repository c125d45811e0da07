"""The order of waiting runs, and which of them run together."""

import numpy as np

from embedder.runtimes import Batch
from embedder.server.waiting_runs import WaitingRun, WaitingRuns


def run(owner: str, texts: int, tokens: int) -> WaitingRun:
    ids = np.zeros((texts, tokens), dtype=np.int64)
    return WaitingRun(owner, Batch(ids, ids + 1))


def owners(waiting: WaitingRuns) -> list[list[str]]:
    """Take everything, and return whose runs were taken together."""
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
    assert owners(waiting) == [
        ["short 0", "short 1", "short 2", "short 3"],
        ["other"],
        ["short 4"],
    ]


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
    assert (waiting.tokens, len(waiting)) == (36, 3)
    waiting.drop("b")
    assert (waiting.tokens, len(waiting)) == (16, 1)
    waiting.take()
    assert (waiting.tokens, len(waiting), bool(waiting)) == (0, 0, False)
