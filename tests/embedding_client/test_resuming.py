"""Checks before a run is resumed."""

from types import SimpleNamespace
from typing import Any

import pytest

from embedding_client import FileError
from embedding_client.resuming import check_resumes


def job(*, sha256="a", kind="csv", column="text", dtype="float32", **options):
    source = {"sha256": sha256, "format": kind, "column": column}
    return {"source": source, "options": {"dtype": dtype, **options}}


def check(old, new):
    checkpoint: Any = SimpleNamespace(job=old, path="o.part", rows=7)
    check_resumes(checkpoint, new, name="notes.csv")


def test_the_same_job_can_be_resumed():
    """With the same options."""
    check(job(dtype="int8", prompt="query"), job(dtype="int8", prompt="query"))


@pytest.mark.parametrize("before", [None, "refuse"])
@pytest.mark.parametrize("now", ["right", "left"])
def test_truncation_may_be_added(before, now):
    """No text in the checkpoint exceeded the limit, so no vector depends on it."""
    check(job(truncate=before), job(truncate=now))


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ({}, {"sha256": "b"}, "the content of notes.csv has changed"),
        ({}, {"kind": "jsonl"}, "--format was csv and is jsonl"),
        ({}, {"column": "body"}, "--column was text and is body"),
        ({}, {"dimensions": 128}, "--dimensions was not given and is 128"),
        ({"input_type": "query"}, {}, "--input-type was query and is not given"),
        ({"truncate": "right"}, {"truncate": "left"}, "--truncate was right and is left"),
        ({"truncate": "right"}, {}, "--truncate was right and is not given"),
        ({"truncate": "refuse"}, {}, "--truncate was refuse and is not given"),
    ],
)
def test_another_job_is_refused(old, new, difference):
    """The message has the difference and the next steps."""
    with pytest.raises(FileError) as caught:
        check(job(**old), job(**new))
    assert str(caught.value) == (
        f"o.part holds 7 rows of another run: {difference}. To continue that run, use its file and "
        "options. To start again, delete o.part."
    )


def test_the_message_has_all_differences():
    """The differences are separated by semicolons."""
    with pytest.raises(FileError, match=r"has changed; --dtype was float32 and is int8\."):
        check(job(), job(sha256="b", dtype="int8"))
