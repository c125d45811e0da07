"""The benchmark of a zip: what it measures of a tree, and how it says it."""

import sys
from pathlib import Path

import pytest

from tools.bench.zip_package import Build, Start, as_text, measure_start

HANDLER = """
def handler(event, context):
    assert event["requestContext"]["http"]["method"] == "POST"
    kept = bytearray(60_000_000)
    return {"statusCode": STATUS, "body": str(len(kept))}
"""


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """Return a tree whose handler takes 60 MB and answers 200, for this Python."""
    monkeypatch.setattr("tools.bench.zip_package.find_python", lambda: sys.executable)
    handlers = tmp_path / "embedder" / "aws_lambda"
    handlers.mkdir(parents=True)
    (handlers / "handler.py").write_text(HANDLER.replace("STATUS", "200"))
    return tmp_path


def test_a_start_is_measured_in_a_process_of_its_own(tree):
    """Time and memory are those of the handler, which finds nothing but the tree."""
    start = measure_start(tree, byte_code=False, rounds=1)
    assert start.import_ms > 0
    assert start.answer_ms >= 0
    assert 60e6 < start.peak_bytes < 150e6
    assert not list(tree.rglob("*.pyc"))


def test_a_start_that_does_not_answer_is_no_measurement(tree):
    """Its numbers would be those of a failure."""
    (tree / "embedder" / "aws_lambda" / "handler.py").write_text(HANDLER.replace("STATUS", "500"))
    with pytest.raises(Exception, match="returned non-zero exit status"):
        measure_start(tree, byte_code=False, rounds=1)


def test_the_result_says_whether_both_builds_gave_the_same_bytes():
    """Sizes in MB, times in s and ms."""
    build = Build(48_300_000, 102_900_000, 56.4, 15.2, same_bytes=True)
    text = as_text(build, [Start(True, 139.2, 2.9, 76_000_000)])
    assert text == (
        "zip: 48.3 MB, 102.9 MB unpacked\n"
        "built in 56 s from nothing, 15 s with changed code; built twice: the same bytes\n"
        "with byte code: 139 ms of CPU to import and load, 3 ms for the first answer, 76 MB at the "
        "peak\n"
    )
