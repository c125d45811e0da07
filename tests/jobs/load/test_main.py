"""`embedding-kit jobs.load`: its output, its exit status, and its arguments."""

import json

import pytest

from jobs.load.__main__ import main
from tests.jobs.load.conftest import ARN, ROWS, row


@pytest.fixture
def run(capsys):
    """Return a function that runs the command and returns status, output and errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        code = main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def test_the_result_is_printed_as_json(embed, index, run):
    """The numbers add up."""
    code, out, _ = run(embed(), ARN, "--threads", 2)
    result = json.loads(out)
    assert (code, result["rows"], result["loaded"]) == (0, ROWS, ROWS)
    assert result["index_arn"] == ARN


def test_rejected_rows_have_a_status_of_their_own(embed, index, run):
    """A share of them may be allowed."""
    folder = embed([row(1), {"id": "x" * 1025, "text": "text long"}])
    code, out, err = run(folder, ARN)
    assert (code, out) == (3, "")
    assert "error: 1 of 2 rows were rejected (50.0%); the load allows 0%." in err
    assert run(folder, ARN, "--max-rejected-percent", 50)[0] == 0


def test_an_error_is_one_line(embed, index, run):
    """A failed load is continued by the same command."""
    folder = embed()
    index.refused.add("d7")
    code, out, err = run(folder, ARN)
    assert (code, out) == (1, "")
    assert (
        err.splitlines()[-1]
        == "error: S3 Vectors refused: A key is not allowed, or it is there twice."
    )
    index.refused.clear()
    assert 0 < len(index.vectors) < ROWS
    assert run(folder, ARN)[0] == 0
    assert len(index.vectors) == ROWS


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--threads", "0"], "must be 1 or more; found 0"),
        (["--vectors-per-second", "2501"], "must be from 1 to 2500; found 2501"),
    ],
)
def test_bad_arguments(arguments, problem, capsys):
    """The status is 2, as for all programs with argparse."""
    with pytest.raises(SystemExit) as raised:
        main(["vectors", ARN, *arguments])
    assert raised.value.code == 2
    assert problem in capsys.readouterr().err


def test_bad_settings(tmp_path, index, run):
    """They are errors of the load, with what is allowed."""
    assert run(tmp_path, ARN, "--max-rejected-percent", 101)[2] == (
        "error: max_rejected_percent must be from 0 to 100; found 101.0.\n"
    )
    assert run(tmp_path, ARN, "--metadata", "a", "--metadata", "a")[2] == (
        "error: metadata must name each column once; found a.\n"
    )
    assert run(tmp_path / "no", ARN)[2] == f"error: {tmp_path}/no is not a folder.\n"
