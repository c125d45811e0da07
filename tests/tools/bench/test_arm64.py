"""Instructions on ARM64: what is counted, and when a count is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tools.bench import arm64, arm64_worker
from tools.bench.__main__ import main
from tools.bench.arm64_emulator import PROCESSORS
from tools.debian import DebianError

ROOT = Path(__file__).parents[3]
COUNTS = json.loads((ROOT / "tools/bench/arm64_counts.json").read_text("utf-8"))["counts"]


@pytest.mark.parametrize(("factor", "missed"), [(0.5, False), (1.0199, False), (1.0201, True)])
def test_a_count_may_be_two_percent_above_the_recorded_one(factor, missed):
    """A lower one is no failure."""
    row, other = arm64.compared({"start": 600.0 * factor, "b": 1}, {"start": 600.0, "b": 1})
    assert (row.missed, other.missed) == (missed, False)


def test_what_is_counted_is_recorded():
    """Starts and requests of both models on both processors; nothing else is compared."""
    models = ("all-MiniLM-L6-v2", "ms-marco-MiniLM-L6-v2")
    rows = ("start", "request of 32 tokens")
    names = {f"{model}, {row}, {cpu}" for model in models for row in rows for cpu in PROCESSORS}
    assert set(COUNTS) == names
    with pytest.raises(SystemExit, match=r"must have what is counted; it differs in start, stop$"):
        arm64.compared({"start": 1}, {"stop": 1})


def test_without_an_emulator_the_check_is_skipped_but_in_ci(tmp_path, monkeypatch, capsys):
    """The reason is shown; a measurement that someone asked for fails."""

    def refuse(_: Path) -> None:
        raise DebianError("this needs root")

    monkeypatch.setattr(arm64, "Emulator", refuse)
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(SystemExit) as skipped:
        main(["arm64", "--check", "--cache", str(tmp_path)])
    assert (skipped.value.code, capsys.readouterr().out) == (0, "skipped: this needs root\n")
    with pytest.raises(SystemExit, match="error: this needs root"):
        main(["arm64", "--cache", str(tmp_path)])
    with pytest.raises(SystemExit, match="error: --record is of a model; found: --check or"):
        main(["arm64", "--check", "--record", "--cache", str(tmp_path)])
    monkeypatch.setenv("CI", "true")
    with pytest.raises(SystemExit, match="error: this needs root"):
        main(["arm64", "--check", "--cache", str(tmp_path)])


def test_the_worker_counts_a_start_requests_runs_and_operators(minilm_artifact, tmp_path):
    """Here without the plugin, so the clock has the time. It imports only what the tree has."""
    shutil.copy(arm64_worker.__file__, tmp_path)
    shutil.copytree(ROOT / "lambda_image" / "embedder", tmp_path / "embedder")
    body = {"input": ["a text"], "model": "m"}
    plan = {"requests": {"a request": ["/v1/embeddings", body]}, "shapes": [[1, 8], [2, 4]]}
    command = [sys.executable, tmp_path / "arm64_worker.py", "kit", str(minilm_artifact.folder)]
    done = subprocess.run(
        [*command, json.dumps({**plan, "nodes": [1, 8]})],
        capture_output=True,
        text=True,
        check=True,
    )
    counts = json.loads(done.stdout)
    operators = {name for name in counts if name.endswith(", 8 tokens")}
    assert set(counts) - operators == {"start", "a request", "8 tokens", "2 texts of 4 tokens"}
    # The operator of int8 layers, by the processor.
    assert operators & {"LinearRows, 8 tokens", "MatMulIntegerToFloat, 8 tokens"}
    assert min(counts.values()) > 0
