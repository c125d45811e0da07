"""`embed batch start --local` embeds a folder in processes, and continues after any end."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from embedder.core.artifact import Artifact
from embedder.core.engine import Engine
from tests.fixtures.waiting import PATIENCE

TEXTS = [f"This is text number {number} of a folder." for number in range(60)]


@pytest.fixture
def command(source: Path, tmp_path: Path, minilm_artifact: Artifact) -> list[str]:
    for half in (0, 1):
        lines = [
            json.dumps({"id": f"d{number}", "text": text})
            for number, text in enumerate(TEXTS)
            if number % 2 == half
        ]
        (source / f"{half}.jsonl").write_text("\n".join(lines))
    start = [sys.executable, "-m", "embedding_client.cli", "batch", "start"]
    options = ["--local", "2", "--artifact", str(minilm_artifact.folder), "--id", "id"]
    return [*start, str(source), str(tmp_path / "vectors"), *options]


def run(command: list[str]) -> subprocess.CompletedProcess:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def folder_of(done: subprocess.CompletedProcess) -> Path:
    return Path(re.search(r"shards to (.+)\n", done.stderr)[1])


def test_all_texts_have_the_engines_vectors(command, minilm_artifact):
    """The vectors of the job are those of the engine, bit for bit; a second run embeds nothing."""
    done = run(command)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["rows"], result["rejected"], result["shards"]) == (60, 0, 2)
    table = pyarrow.parquet.read_table(folder_of(done))
    found = dict(zip(table["id"].to_pylist(), table["embedding"].to_numpy(), strict=True))
    for number, vector in enumerate(Engine.load(minilm_artifact).embed(TEXTS).vectors):
        np.testing.assert_array_equal(found[f"d{number}"], vector)
    again = run(command)
    assert (again.returncode, again.stdout) == (0, done.stdout)


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_a_killed_parent(command, source, ending):
    """All processes have this pipe as their output, so its end is the end of the last one."""
    for number in range(300):
        (source / f"more-{number}.jsonl").write_text(json.dumps({"id": f"m{number}", "text": "a"}))
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        vectors = Path(re.search(rb"shards to (.+)\n", started.stderr.readline())[1].decode())
        while not list(vectors.glob("part-*.parquet")):
            assert started.poll() is None
            time.sleep(0.01)
        started.send_signal(ending)
        output, _ = started.communicate(timeout=PATIENCE)
    assert (started.returncode, output) == (-ending, b"")


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_job_is_continued(command, source, tmp_path, ending):
    """After Ctrl-C or a kill, the same command completes the job, with no row lost or twice."""
    text = " ".join(TEXTS)
    lines = [json.dumps({"id": f"e{number}", "text": text[number:]}) for number in range(150)]
    (source / "2.jsonl").write_text("\n".join(lines))
    command = [*command, "--truncate", "right"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0) as started:
        while not list(tmp_path.glob("vectors/*/part-*.parquet")):
            assert started.poll() is None
            time.sleep(0.05)
        os.killpg(started.pid, ending)
        _, errors = started.communicate()
    if ending == signal.SIGINT:
        assert started.returncode == 130
        assert "stopped; the same command continues the job" in errors
    first = {path: path.stat().st_mtime_ns for path in tmp_path.glob("vectors/*/part-*.parquet")}
    done = run(command)
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in first} == first
    ids = pyarrow.parquet.read_table(folder_of(done))["id"].to_pylist()
    assert sorted(ids) == sorted(
        [*(f"d{number}" for number in range(60)), *(f"e{number}" for number in range(150))]
    )


def test_rejected_rows_give_a_status_of_their_own(command, source):
    """Too many rejected rows exit with 3, after all others were embedded."""
    with (source / "1.jsonl").open("a") as file:
        file.write("\n{broken")
    done = run(command)
    assert done.returncode == 3
    assert "error: 1 of 61 rows were rejected (1.6%); the job allows 1%." in done.stderr
    assert len(pyarrow.parquet.read_table(folder_of(done))) == 60
    assert run([*command, "--max-rejected-percent", "2"]).returncode == 0


def test_a_wrong_input_is_one_line(command, source):
    """An error is one line on standard error, with status 1."""
    done = run([*command, "--dimensions", "7"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: dimensions must be one of 384; found 7.\n"
