"""The start of an unpacked zip."""

import sys
from pathlib import Path

import pytest

from tools.bench.zip_package import start

HANDLER = """
def handler(event, context):
    assert event["requestContext"]["http"]["method"] == "POST"
    kept = bytearray(60_000_000)
    return {"statusCode": STATUS, "body": str(len(kept))}
"""


@pytest.fixture
def tree(tmp_path, monkeypatch) -> Path:
    """Return a tree with a handler that takes 60 MB and answers 200, for this Python."""
    monkeypatch.setattr("tools.bench.zip_package.find_python", lambda: sys.executable)
    handlers = tmp_path / "embedder" / "aws_lambda"
    handlers.mkdir(parents=True)
    (handlers / "handler.py").write_text(HANDLER.replace("STATUS", "200"))
    return tmp_path


def test_a_start_is_measured_in_a_process_of_its_own(tree):
    """Time and memory are those of the handler, which finds nothing but the tree."""
    imported, answer, peak = start(tree)
    assert imported > 0
    assert answer >= 0
    assert 60 < peak < 150
    assert not list(tree.rglob("*.pyc"))


def test_a_start_that_does_not_answer_is_no_measurement(tree):
    """Its numbers would be those of a failure."""
    (tree / "embedder" / "aws_lambda" / "handler.py").write_text(HANDLER.replace("STATUS", "500"))
    with pytest.raises(Exception, match="returned non-zero exit status"):
        start(tree)
