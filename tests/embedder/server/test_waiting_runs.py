"""When a caller's request is refused, and in which order runs wait."""

import numpy as np
import pytest

from embedder.core.errors import OverloadedError
from embedder.core.model_runner import TokenBatch
from embedder.server.waiting_runs import Shares, WaitingRun, WaitingRuns


def run(owner: str, texts: int, tokens: int, caller: str = "") -> WaitingRun:
    ids = np.zeros((texts, tokens), dtype=np.int64)
    return WaitingRun(owner, TokenBatch(ids, ids + 1), caller)


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


def shares(**held: int) -> Shares:
    made = Shares("tokens")
    for caller, amount in held.items():
        made.take(caller, amount)
    return made


@pytest.mark.parametrize(
    ("held", "more", "bound", "admitted"),
    [
        (60, 40, 100, True),
        (60, 41, 100, False),
        # Otherwise a large list would wait for a moment in which nothing waits.
        (50, 5000, 100, True),
        (51, 5000, 100, False),
        (0, 5000, 0, True),
        (1, 1, 1, False),
    ],
)
def test_what_fits_or_is_larger_than_a_half_empty_queue_is_admitted(held, more, bound, admitted):
    """A caller that holds nothing always is, however much others hold."""
    made = shares(a=held, b=5000 if held == 0 else 0)
    if admitted:
        made.check("a", more, bound)
        return
    message = f"it has {held} tokens of this caller, and at most {bound}"
    with pytest.raises(OverloadedError, match=message):
        made.check("a", more, bound)


def test_a_caller_may_take_what_is_free_and_always_its_equal_part():
    """One that has taken all of a bound leaves the others their parts."""
    full = shares(a=78, b=21, c=1)
    full.check("b", 12, 100)
    for caller, more in (("b", 13), ("a", 1)):
        with pytest.raises(OverloadedError, match="at most 33 are allowed now"):
            full.check(caller, more, 100)
    full.take("b", -20)
    full.check("a", 20, 100)


def test_what_is_given_back_is_free():
    """A caller that holds nothing any more counts no more."""
    held = shares(a=60, b=10)
    held.take("b", -10)
    held.check("a", 40, 100)
    assert held.total == 60


@pytest.mark.parametrize(
    ("held", "pace", "seconds"),
    [
        ({"a": 80}, 0.05, "4"),
        ({"a": 81}, 0.05, "5"),
        ({"a": 80}, 0.001, "1"),
        ({"a": 90}, 0.0, "1"),
        ({"a": 60, "b": 20}, 0.05, "4"),
        ({"a": 30, "b": 50, "c": 20}, 0.05, "5"),
    ],
)
def test_retry_after_is_the_time_of_the_callers_own_work(held, pace, seconds):
    """Its part of the model is equal to the others'. It is in whole seconds, 1 at least."""
    with pytest.raises(OverloadedError) as caught:
        shares(**held).check("a", 50, 50, seconds_each=pace)
    assert caught.value.headers == {"retry-after": seconds}
    assert caught.value.message.endswith(f"again in {seconds} s.")
