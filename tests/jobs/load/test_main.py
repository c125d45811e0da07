"""A load from this machine: its output, its exit status, and its settings."""

import json
from pathlib import Path

import pytest

from jobs.load.__main__ import main
from tests.jobs.load.conftest import ARN, ROWS, row


@pytest.fixture
def run(capsys):
    """Return a function that runs a load and returns status, output and errors."""

    def run(source: Path, **settings: object) -> tuple[int, str, str]:
        code = main([json.dumps({"settings": {"source": str(source), "index": ARN, **settings}})])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_result_is_printed_as_json(embed, index, run):
    """The numbers add up."""
    code, out, _ = run(embed())
    result = json.loads(out)
    assert (code, result["rows"], result["loaded"]) == (0, ROWS, ROWS)
    assert result["index_arn"] == ARN


def test_rejected_rows_have_a_status_of_their_own(embed, index, run):
    """A share of them may be allowed."""
    folder = embed([row(1), {"id": "x" * 1025, "text": "text long"}])
    code, out, err = run(folder)
    assert (code, out) == (3, "")
    assert "error: 1 of 2 rows were rejected (50.0%); the load allows 0%." in err
    assert run(folder, max_rejected_percent=50)[0] == 0


def test_an_error_is_one_line(embed, index, run):
    """A failed load is continued by the same command."""
    folder = embed()
    index.refused.add("d7")
    code, out, err = run(folder)
    assert (code, out) == (1, "")
    assert (
        err.splitlines()[-1]
        == "error: S3 Vectors refused: A key is not allowed, or it is there twice."
    )
    index.refused.clear()
    assert 0 < len(index.vectors) < ROWS
    assert run(folder)[0] == 0
    assert len(index.vectors) == ROWS


def test_bad_settings(tmp_path, index, run):
    """They are errors of the load, with the allowed values."""
    assert run(tmp_path, max_rejected_percent=101)[2] == (
        "error: max_rejected_percent must be from 0 to 100; found 101.\n"
    )
    assert run(tmp_path, metadata=["a", "a"])[2] == (
        "error: metadata must name each column once; found a.\n"
    )
    assert run(tmp_path / "no")[2] == f"error: {tmp_path}/no is not a folder.\n"
