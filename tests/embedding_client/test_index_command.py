"""`embed index`: loads on AWS and from here, and the vectors of an index."""

import io
import json
import os
import re
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.embedding_client.test_jobs import COUNTS, MACHINE, states  # noqa: F401
from tests.jobs import conftest as shared
from tests.jobs.load import conftest as loading
from tests.jobs.load.conftest import ARN

embed, engine, session = loading.embed, shared.engine, shared.session
s3_vectors, index = loading.s3_vectors, loading.index
SOURCE = "s3://bucket/vectors/job1/"


@pytest.fixture
def run(monkeypatch, command):
    """Return a function that runs `embed index` and returns status, output and errors."""
    monkeypatch.setenv("EMBEDDING_INDEX_ARN", ARN)
    monkeypatch.setenv("EMBEDDING_INDEX_LOAD", MACHINE)
    return partial(command, "index")


def test_a_load_is_started_with_its_settings_and_followed(states, run):  # noqa: F811
    """Its name is that of the job's folder, unless it has another."""
    code, out, _ = run("load", SOURCE, "--metadata", "lang", "--name", "one", "--no-follow")
    assert (code, out) == (0, "one\n")
    (execution,) = states.executions.values()
    assert json.loads(execution["input"]) == {"source": SOURCE, "index": ARN, "metadata": ["lang"]}
    states.counts = COUNTS
    assert "parts      6 of 10 done, 1 failed" in run("status", "one")[1]
    states.end("one", status="SUCCEEDED", output=json.dumps({"loaded": 60, "parts": 10}))
    code, out, _ = run("status", "one", "--follow")
    assert code == 0
    assert "loaded     60" in out
    assert json.loads(run("status", "one", "--json")[1])["result"] == {"loaded": 60, "parts": 10}
    assert "SUCCEEDED  one" in run("list")[1]


def test_a_failed_load_has_a_status_and_its_reason(states, run):  # noqa: F811
    """A canceled one is continued by the same load."""
    run("load", SOURCE, "--name", "one", "--no-follow")
    code, out, _ = run("cancel", "one")
    assert (code, out) == (0, "one is canceled; the same 'embed index load' continues it\n")
    cause = json.dumps({"errorMessage": "1 of 2 rows were rejected"})
    states.end("one", status="FAILED", error="RejectedRowsError", cause=cause)
    code, out, _ = run("status", "one")
    assert code == 1
    assert "error      1 of 2 rows were rejected" in out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["load", "vectors/"], "On AWS, the source is s3://BUCKET/PREFIX/; found vectors/. For a"),
        (["load", SOURCE, "--vectors-per-second", "9"], "--vectors-per-second is for --local; on"),
        (["load", "--local", "--vectors-per-second", "2501"], "whole number from 1 to 2,500"),
        (["load", SOURCE, "--state-machine", "a"], "prints as LoadStateMachineArn; found 'a'"),
        (["count", "docs"], "The index must be given by its ARN, such as .*; found 'docs'"),
    ],
)
def test_arguments_that_do_not_fit(run, arguments, problem):
    """The error has the rule and the value."""
    code, _, err = run(*arguments)
    assert code == 2
    assert re.search(problem, err)


def test_without_variables_the_index_and_the_state_machine_are_asked_for(run, monkeypatch):
    """The errors name the outputs of the deploy."""
    monkeypatch.delenv("EMBEDDING_INDEX_ARN")
    monkeypatch.delenv("EMBEDDING_INDEX_LOAD")
    assert "prints as IndexArn" in run("count")[2]
    assert "prints as LoadStateMachineArn" in run("list")[2]


def test_vectors_are_shown_counted_and_deleted(s3_vectors, index, run, monkeypatch):
    """Ids come as arguments or as lines of a pipe; a missing one is no error."""
    ones = {"float32": [1.0] * 32}
    index.put([{"key": f"d{number}", "data": ones} for number in range(2345)])
    assert run("count")[:2] == (0, "2345\n")
    assert s3_vectors.count("ListVectors") == 16
    assert json.loads(run("show", ARN)[1]) == {
        "index_arn": ARN,
        "vector_space": None,
        "dimension": 32,
        "distance_metric": "cosine",
        "non_filterable": ["text"],
    }
    assert run("delete", "d1", "d2", "no")[:2] == (0, "not in the index: 3 ids\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(f"d{n}\n" for n in range(1200))))
    assert run("delete")[:2] == (0, "not in the index: 1,200 ids\n")
    assert s3_vectors.count("DeleteVectors") == 4
    assert len(index.vectors) == 1145
    code, _, err = run("count", f"{ARN}2")
    assert code == 1
    assert "AWS refused: " in err


def test_a_load_from_here_is_the_loader_in_place_of_this_process(run, embed, index, monkeypatch):
    """So Ctrl-C and the exit status are the load's own."""
    folder, called = embed(), []

    def execv(path: str, command: list[str]) -> None:
        called.append(command)
        raise SystemExit(0)

    monkeypatch.setattr(os, "execv", execv)
    assert run("load", folder, "--local", "--metadata", "lang", "--vectors-per-second", 300)[0] == 0
    ((python, *arguments),) = called
    assert Path(python).name.startswith("python")
    assert arguments[:4] == ["-P", "-m", "embedding_kit.programs", "jobs.load"]
    assert json.loads(arguments[4]) == {
        "settings": {"source": str(folder), "index": ARN, "metadata": ["lang"]},
        "vectors_per_second": 300,
    }
    from jobs.load.__main__ import main

    assert main(arguments[4:]) == 0
    assert len(index.vectors) == loading.ROWS
