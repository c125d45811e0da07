"""`embedding-kit jobs.load.recall`, over an index that the load made in the exact stand-in."""

import json
from pathlib import Path
from typing import Any

import pytest

from jobs.load.__main__ import main as load
from jobs.load.recall import main
from tests.fixtures.s3_vectors.indexes import Index
from tests.jobs.load.conftest import ROWS


@pytest.fixture
def folder(embed: Any) -> Path:
    made: Path = embed()
    return made


@pytest.fixture
def loaded(index: Index, folder: Path, capsys: pytest.CaptureFixture[str]) -> Index:
    assert load([str(folder), index.arn]) == 0
    capsys.readouterr()
    return index


def measured(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    assert main([str(argument) for argument in arguments]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.mark.slow
def test_an_exact_index_has_a_recall_of_1(
    loaded: Index, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every query finds the same vectors as the search through the files of the job."""
    result = measured(capsys, folder, loaded.arn, "--queries", 20, "--top", 7)
    assert result.pop("milliseconds") > 0
    assert result == {
        "queries": 20,
        "top": 7,
        "recall": 1.0,
        "lowest": 1.0,
        "missing": 0,
        "rows": ROWS,
    }
    assert measured(capsys, folder, loaded.arn)["queries"] == ROWS


def test_vectors_that_an_index_does_not_find_lower_its_recall(
    loaded: Index, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A third of the vectors is gone, and with it about a third of the results."""
    for number in range(0, ROWS, 3):
        del loaded.vectors[f"d{number}"]
    result = measured(capsys, folder, loaded.arn, "--top", 15)
    assert result["missing"] == ROWS / 3
    assert 0.55 < result["recall"] < 0.8
    assert result["lowest"] < result["recall"]


def test_equally_near_vectors_are_as_good(
    embed: Any, index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of many vectors at the same distance, any may be found."""
    folder = embed([{"id": f"d{n}", "text": "the same" if n else "another"} for n in range(40)])
    assert load([str(folder), index.arn]) == 0
    capsys.readouterr()
    assert measured(capsys, folder, index.arn, "--top", 3)["recall"] == 1.0


def test_another_vector_space_is_refused(
    index: Index, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index of another model, and one that was never loaded, cannot be compared."""
    for space, shown in ((None, "no vector space yet"), ("other@1/32", "other@1/32")):
        if space is not None:
            index.tags["embedding-kit:vector-space"] = space
        assert main([str(folder), index.arn]) == 1
        assert f"error: The index has vectors of {shown}; the job's" in capsys.readouterr().err


def test_a_job_of_too_few_rows_is_refused(
    loaded: Index, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """There must be more rows than results."""
    assert main([str(folder), loaded.arn, "--top", str(ROWS)]) == 1
    assert f"The job has {ROWS} rows; --top must be below that" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("option", "value"), [("--top", "0"), ("--top", "10000"), ("--queries", "0")]
)
def test_numbers_are_bounded(option: str, value: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The status is 2, as for all programs with argparse."""
    with pytest.raises(SystemExit) as raised:
        main(["vectors", "arn", option, value])
    assert raised.value.code == 2
    assert f"found {value}" in capsys.readouterr().err
