"""Embedding a file: what a run may continue, and how often it reads."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from embedding_client import EmbeddingClient, FileError
from embedding_client import _readers as readers
from embedding_client._file_embedding import check_resumes, embed_file
from embedding_client._protocol import EmbedOptions
from embedding_client._readers import TextSource


def job(*, sha256="a", kind="csv", column="text", dtype="float32", **options):
    source = {"sha256": sha256, "format": kind, "column": column}
    return {"source": source, "options": {"dtype": dtype, **options}}


def check(old, new):
    checkpoint: Any = SimpleNamespace(job=old, path="o.part", rows=7)
    check_resumes(checkpoint, new, name="notes.csv")


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


@pytest.fixture
def readings(monkeypatch):
    """Record each reading of a file of text; the second one runs `between` first."""
    made: list[str] = []
    between: list[Callable[[], object]] = []
    read = readers.READERS["text"]

    def recorded(file, column):
        made.append(file.name if hasattr(file, "name") else "")
        if len(made) == 2:
            for act in between:
                act()
        return read(file, column)

    monkeypatch.setitem(readers.READERS, "text", recorded)
    return made, between


def test_a_file_that_appeared_meanwhile_is_not_overwritten(running, readings, tmp_path):
    """The vectors stay in the checkpoint, and the same call with `overwrite` writes them."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    output, (_, between) = tmp_path / "a.jsonl", readings
    between.append(lambda: output.write_text("mine"))

    def embed(**options):
        source = TextSource(tmp_path / "a.txt", kind="text")
        connect = lambda _: EmbeddingClient(running.url)  # noqa: E731
        return embed_file(connect, source, output, options=EmbedOptions(), **options)

    with pytest.raises(FileError, match=r"a\.jsonl"):
        embed()
    assert output.read_text() == "mine"
    assert embed(overwrite=True).rows == 2


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".npy"])
def test_the_input_is_read_twice(running, readings, tmp_path, suffix):
    """Also if rows are rejected: once to find errors, and once to embed and write."""
    (tmp_path / "a.txt").write_text("one\n\ntwo\n" + "word " * 2000 + "\n")
    summary = embed_file(
        lambda _: EmbeddingClient(running.url),
        TextSource(tmp_path / "a.txt"),
        tmp_path / f"a{suffix}",
        options=EmbedOptions(truncate="refuse"),
        on_error="skip",
    )
    assert (summary.rows, summary.rejected) == (2, 2)
    assert len(readings[0]) == 2


def test_rows_of_other_content_are_not_kept(client, running, readings, tmp_path):
    """A file that changes during a run leaves no vector of the new content in the checkpoint."""
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    readings[1].append(lambda: path.write_text("six\ntwo\n"))

    def run():
        return embed_file(
            lambda _: EmbeddingClient(running.url),
            TextSource(path),
            tmp_path / "a.npy",
            options=EmbedOptions(),
        )

    with pytest.raises(FileError, match="was changed while it was being embedded"):
        run()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.txt"]
    path.write_text("one\ntwo\n")
    run()
    assert np.allclose(np.load(tmp_path / "a.npy"), client.embed(["one", "two"]), atol=1e-6)
