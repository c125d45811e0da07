"""The command `scripts/bench batch`."""

import pytest

from tools.bench.__main__ import main
from tools.bench.batch import Spent, report


@pytest.mark.slow
def test_the_plan_of_an_input_is_measured_in_each_format(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row of the table has the size, the shards, the CPU time and the peak memory."""
    monkeypatch.setattr("sys.argv", ["bench", "batch", "--plan", "5000"])
    assert main() == 0
    _, _, *rows = capsys.readouterr().out.splitlines()
    names, _, shards, seconds, peaks = zip(
        *([cell.strip() for cell in row.strip("|").split("|")] for row in rows), strict=True
    )
    assert names == ("a.jsonl", "a.csv", "a.jsonl.gz", "a.parquet")
    assert all(int(count) > 0 for count in shards)
    assert all(0 < float(value) < 900 for value in (*seconds, *peaks))


@pytest.mark.parametrize(("cpu", "status"), [(11.0, 0), (11.2, 1)])
def test_a_job_must_reach_nine_tenths_of_the_loop(
    cpu: float, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 1 if a job takes more CPU time; other libraries are only shown."""
    spent = {
        "loop over the engine": [Spent(9.0, 9.0), Spent(10.0, 10.0), Spent(30.0, 30.0)],
        "jobs.embed, 1 processes": [Spent(cpu, 12.0)],
        "sentence-transformers": [Spent(40.0, 40.0)],
    }
    assert report(spent, 1000) == status
    printed = capsys.readouterr().out
    assert "| loop over the engine | 10.00 | 1.00 | 100 |" in printed
    assert "| sentence-transformers | 40.00 | 0.25 | 25 |" in printed
    assert ("under 0.9: jobs.embed, 1 processes" in printed) is bool(status)
