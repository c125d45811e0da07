"""The frame of the subjects: turns, targets, table and JSON."""

from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

from tools.bench.report import Machine, Row, Run, as_table, turns

MACHINE = Machine("A CPU", 2, 0.5, "1.31.1")


@pytest.fixture
def run() -> Run:
    """Two contenders measured, one of them over a target, and one absent."""
    return Run(
        model="replica <full>",
        labels={"baseline": "baseline", "kit": "Embedding Kit", "peer": "a peer"},
        absent={"a peer": "peer is not installed"},
        rows=[
            Row("8 tokens", "ms", {"baseline": 10.0, "kit": 8.0}, {"baseline": 0.88}),
            Row("512 tokens", "ms", {"baseline": 300.0, "kit": 290.0}, {"baseline": 0.94}),
            Row("other", "MB", {"baseline": 100.0, "kit": 450.0}, {"peer": 0.1}),
        ],
        notes=["a note"],
        cosines={"baseline": 0.98765, "kit": 0.99912},
    )


def test_contenders_take_turns() -> None:
    """The rounds of the warm-up are not counted."""
    turn = count(1)
    work = dict.fromkeys("ab", lambda: next(turn))
    assert turns(work, rounds=2) == {"a": [3, 5], "b": [4, 6]}


def test_rounds_go_on_for_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are at least as many as asked for. Here each look at the clock takes a second."""
    clock = SimpleNamespace(monotonic=partial(next, count()))
    monkeypatch.setattr("tools.bench.report.time", clock)
    assert len(turns({"a": lambda: 1}, rounds=1, seconds=5)["a"]) == 5
    assert len(turns({"a": lambda: 1}, rounds=9)["a"]) == 9


def test_what_is_over_its_target_is_named(run: Run) -> None:
    """290 of 300 is more than 0.94; a contender that was not measured has no target."""
    assert run.missed == ["512 tokens, ms"]
    assert not Row("wrong", "answers", {"kit": 0, "limit": 0}, {"limit": 1}).missed


def test_the_table_has_values_ratios_targets_and_the_absent(run: Run) -> None:
    """Never silently left out."""
    table = as_table(run, MACHINE)
    assert "| lowest cosine to full precision | 0.9877 | 0.9991 |  |" in table
    assert "| 8 tokens, ms | 10.0 | 8.0 (0.80) | ≤ 0.88 of baseline |" in table
    assert "| 512 tokens, ms | 300 | 290 (0.97) | ≤ 0.94 of baseline **missed** |" in table
    assert "| other, MB | 100 | 450 (4.50) |  |" in table
    assert "- a note" in table
    assert "- a peer: absent (peer is not installed)" in table
