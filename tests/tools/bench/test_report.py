"""The frame of the subjects: turns and targets."""

from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

from tools.bench.__main__ import main
from tools.bench.report import Comparison, Machine, ReportRow, as_json, as_table, from_json, turns


def test_contenders_take_turns():
    """The rounds of the warm-up are not counted."""
    turn = count(1)
    work = dict.fromkeys("ab", lambda: next(turn))
    assert turns(work, rounds=2) == {"a": [3, 5], "b": [4, 6]}


def test_rounds_go_on_for_the_time(monkeypatch):
    """There are at least as many as asked for. Here each look at the clock takes a second."""
    clock = SimpleNamespace(monotonic=partial(next, count()))
    monkeypatch.setattr("tools.bench.report.time", clock)
    assert len(turns({"a": lambda: 1}, rounds=1, seconds=5)["a"]) == 5
    assert len(turns({"a": lambda: 1}, rounds=9)["a"]) == 9


def test_a_round_begins_with_its_pause(monkeypatch):
    """All contenders idle at the same time, so one pause is enough."""
    pauses: list[float] = []
    clock = SimpleNamespace(monotonic=lambda: 0.0, sleep=pauses.append)
    monkeypatch.setattr("tools.bench.report.time", clock)
    turns({"a": lambda: 1, "b": lambda: 2}, rounds=2, warm_up=0, pause=1.0)
    assert pauses == [1.0, 1.0]


def test_a_run_is_read_as_it_was_written():
    """A page shows the same table as the command, which names the processor's instructions."""
    rows = [ReportRow("init", "ms", {"kit": 1234.0, "other": 617.0}, {"other": 2.5})]
    run = Comparison("model", {"kit": "Embedding Kit", "other": "peer"}, rows, "kit", ["a note"])
    machine = Machine("AMD EPYC", ["AVX2", "VNNI"], 2, 0.5, "1.2.3")
    assert from_json(as_json(run, machine)) == (run, machine)
    about, *lines = as_table(run, machine).splitlines()
    assert about.startswith("AMD EPYC (AVX2, VNNI), 2 cores, load 0.5; ONNX Runtime 1.2.3. In ")
    assert lines == [
        "",
        "|  | Embedding Kit | peer | target |",
        "| --- | --- | --- | --- |",
        "| init, ms | 1,234 | 617 (0.50) | ≤ 2.5 of peer |",
        "",
        "- a note",
    ]


def test_a_quick_run_is_not_recorded():
    """The pages show whole models only."""
    with pytest.raises(SystemExit, match="--record needs a whole run; found: --quick"):
        main(["--quick", "--record"])


def test_what_is_over_its_target_is_named():
    """290 of 300 is more than 0.94; a contender that was not measured has no target."""
    rows = [
        ReportRow("8 tokens", "ms", {"baseline": 10.0, "kit": 8.0}, {"baseline": 0.88}),
        ReportRow("512 tokens", "ms", {"baseline": 300.0, "kit": 290.0}, {"baseline": 0.94}),
        ReportRow("other", "MB", {"baseline": 100.0, "kit": 450.0}, {"peer": 0.1}),
        ReportRow("wrong", "answers", {"kit": 0, "limit": 0}, {"limit": 1}),
    ]
    assert [row.name for row in rows if row.missed] == ["512 tokens"]
