"""`scripts/bench download` measures starts with an artifact from S3."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.download.report import Figures, as_text

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def figures() -> Figures:
    step = {"cpu ms": 50.0, "MB": 20.0, "peak MB": 25.0}
    fetch = step | {"fetch s/GB": 0.5, "SHA-256 s/GB": 0.75, "MB/s": 100.0}
    start = step | {
        "start cpu ms": 200.0,
        "beside the network ms": 200.0,
        "without warming ms": 160.0,
        "session ms": 80.0,
        "MB": 180.0,
    }
    return Figures(
        cpu="a CPU",
        load=0.5,
        rounds=3,
        megabytes=324.0,
        starts={
            "setup": step,
            "botocore": step | {"cpu ms": 500.0},
            "http": fetch,
            "https": fetch,
            "from the image": start,
            "from S3": start
            | {"beside the network ms": 430.0, "without warming ms": 400.0, "session ms": 82.0}
            | {"MB": 189.0},
        },
        ways={
            "path": {"cpu ms": 100.0, "MB": 180.0, "peak MB": 181.0, "vector": "a"},
            "memfd": {"cpu ms": 250.0, "MB": 720.0, "peak MB": 900.0, "vector": "a"},
            "link": {"refused": "ONNX Runtime\nsays no"},
        },
    )


def test_the_report_has_each_target(figures: Figures) -> None:
    """Each row has a measured value and its target."""
    lines = as_text(figures).splitlines()
    assert "| client made, CPU | 50 ms (botocore: 500) | 70 ms |" in lines
    assert "| session, CPU | 82 ms (from the image: 80; +2.5%) | 5% |" in lines
    assert any(line.startswith("| start beside the network, CPU | 430 ms (") for line in lines)
    assert "| memory after the start | 189 MB (from the image: 180; +5.0%) | 5% |" in lines


def test_a_refused_way_says_why(figures: Figures) -> None:
    """A way that ONNX Runtime refuses has its error; the others are compared with the path."""
    lines = as_text(figures).splitlines()
    assert "| memfd | 250 ms (2.5x) | 720 MB (4.0x) | 900 MB | a |" in lines
    assert "| link | refused | | | ONNX Runtime says no |" in lines


def test_a_step_is_measured_in_a_process_of_its_own() -> None:
    """A worker prints its CPU time and its memory."""
    command = [sys.executable, "-m", "benchmarks.download.worker", "setup"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(answer.stdout)
    assert found["cpu ms"] > 0
    assert 0 < found["MB"] <= found["peak MB"]
