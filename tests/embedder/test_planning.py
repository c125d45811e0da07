"""Which inputs share a run."""

from hypothesis import given
from hypothesis import strategies as st

from embedder.planning import plan

LENGTHS = st.lists(st.integers(1, 300), max_size=60)


@given(LENGTHS, st.integers(1, 1000), st.integers(0, 100))
def test_every_input_stands_in_exactly_one_run(lengths: list[int], budget: int, cost: int) -> None:
    """Nothing is lost and nothing is embedded twice."""
    runs = plan(lengths, budget=budget, run_cost=cost)
    assert sorted(position for run in runs for position in run) == list(range(len(lengths)))


@given(LENGTHS, st.integers(1, 1000), st.integers(0, 100))
def test_a_run_keeps_to_its_bounds(lengths: list[int], budget: int, cost: int) -> None:
    """A run of more than one is within the budget, and pads no more than a run costs."""
    for run in plan(lengths, budget=budget, run_cost=cost):
        longest = lengths[run[0]]
        sizes = [lengths[position] for position in run]
        assert longest == max(sizes)
        assert len(run) == 1 or longest * len(run) <= budget
        assert longest * len(run) - sum(sizes) <= cost


def test_equal_lengths_share_runs_without_padding() -> None:
    """A hundred texts of 8 tokens fill runs up to the budget."""
    assert [len(run) for run in plan([8] * 100, budget=256, run_cost=0)] == [32, 32, 32, 4]


def test_unlike_lengths_are_kept_apart() -> None:
    """One long text does not pad the short ones: that would cost more than another run."""
    assert plan([5, 250, 5, 6]) == [[1], [3, 0, 2]]


def test_nothing_needs_no_run() -> None:
    """All inputs may have come from the cache."""
    assert plan([]) == []
