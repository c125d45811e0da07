"""Chunks of documents: both clients and `embed chunk`, at a real `scripts/serve`."""

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from embedding_client import RequestError
from embedding_client._chunk_command import _local_url
from embedding_client.document_summary import DocumentSummary
from tests.embedding_client.answers import asynchronously

DOCUMENT = "---\nyear: 2024\n---\n# Dates\n\nParse a string.\n\n## Zones\n\nUse UTC."
METADATA = {"document": "dates.md", "title": "Dates", "year": 2024}
CHUNKS = [
    {
        "text": "Parse a string.",
        "headings": "Dates",
        "tokens": 5,
        "metadata": METADATA | {"headings": "Dates"},
    },
    {
        "text": "Use UTC.",
        "headings": "Dates > Zones",
        "tokens": 3,
        "metadata": METADATA | {"headings": "Dates > Zones"},
    },
]
COUNTS = {"chunks": 2, "tokens": 8, "unknown": 0, "cut": 0, "longest": 5, "shortest": 3}


def test_both_clients_return_the_chunks(running, client):
    """Of any format, by the name, and as an index has them; also over Lambda's 6 MB."""
    options: Any = {"metadata": ["year"], "chunk_tokens": 64, "overlap_tokens": 0}
    data = DOCUMENT.encode()
    answer = client.chunk("dates.md", data, **options)
    assert answer == {"title": "Dates", "chunks": CHUNKS, "problems": [], "counts": COUNTS}
    divided = asynchronously(lambda other: other.chunk("dates.md", data, **options), running.url)
    assert divided == answer
    (row,) = client.chunk("a/b.jsonl", b'{"text": "a row", "year": 0}', metadata=["year"])["chunks"]
    assert (row["text"], row["headings"]) == ("a row", "")
    assert row["metadata"] == {
        "document": "a/b.jsonl",
        "tenant": "a",
        "title": "b.jsonl",
        "year": 0,
    }
    with pytest.raises(RequestError, match="byte 7000000 is not utf-8"):
        client.chunk("large.txt", b"a" * 7_000_000 + b"\xff")


@pytest.mark.parametrize(
    ("name", "options", "code", "message"),
    [
        ("a.pdf", {}, "refused_document", "PDF"),
        ("a.exe", {}, "refused_document", "must end with"),
        ("a.txt", {"chunk_tokens": 255}, "invalid_field", "chunk_tokens must be from 8 to 254"),
        ("a.txt", {"overlap_tokens": 200}, "invalid_field", "overlap_tokens must be from 0 to"),
        ("a.txt", {"metadata": [1]}, "invalid_field", '"metadata" must be a list of up to 50 keys'),
        ("a.pdf", {"metadata": ["a\0"]}, "invalid_field", "of 1 to 63 characters"),
        ("a" * 1025, {}, "invalid_field", '"name" must be a string of at most 1024 characters'),
    ],
)
def test_a_document_that_cannot_be_divided_says_why(client, name, options, code, message):
    """What `[ingest]` would refuse has a code of its own."""
    with pytest.raises(RequestError, match=message) as raised:
        client.chunk(name, b"words", **options)
    assert raised.value.code == code


def test_the_command_shows_the_chunks(running, tmp_path, command):
    """As text with title, numbers and headings, or as JSON lines; then the sums."""
    file = tmp_path / "dates.md"
    file.write_text(DOCUMENT)
    code, out, err = command("chunk", file, "--metadata", "year", "--url", running.url)
    assert out.startswith("=== dates.md: Dates\n\n--- 1 > Dates  (5 tokens)\nyear: 2024\nParse")
    assert "--- 2 > Dates > Zones  (3 tokens)\nyear: 2024\nUse UTC.\n" in out
    assert (code, err) == (0, "1 document, 2 chunks of 3 to 5 tokens\n")
    options = ("--metadata", "year", "--json", "--url", running.url)
    assert [*map(json.loads, command("chunk", file, *options)[1].splitlines())] == CHUNKS


@pytest.mark.parametrize(
    ("variable", "asked"),
    [
        (None, "http://127.0.0.1:9000"),
        ("http://localhost:9001", "http://localhost:9001"),
        ("https://abc.lambda-url.eu-central-1.on.aws", "http://127.0.0.1:9000"),
        ("http://[", "http://127.0.0.1:9000"),
    ],
)
def test_documents_go_to_this_machine_unless_a_url_is_given(monkeypatch, variable, asked):
    """A deployed endpoint, which the variable may name, divides none."""
    monkeypatch.delenv("EMBEDDING_URL", raising=False)
    if variable:
        monkeypatch.setenv("EMBEDDING_URL", variable)
    assert _local_url() == asked


def test_a_folder_is_divided_as_ingest_would(running, tmp_path, command, monkeypatch):
    """Each refused file is named; ignored ones are not; the status says that some are missing."""
    for name in (
        "b/a.txt",
        "b/_draft.txt",
        ".git/a.txt",
        "c.png",
        "d.jpg",
        "~$e.docx",
        "locked.md",
        b"\xff.png",
    ):
        file = tmp_path / os.fsdecode(name)
        file.parent.mkdir(exist_ok=True)
        file.write_text("words")
    with (tmp_path / "large.md").open("wb") as large:
        large.truncate((32 << 20) + 1)
    read_bytes = Path.read_bytes

    def denied(path):
        if path.name == "locked.md":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read_bytes(path)

    monkeypatch.setattr(Path, "read_bytes", denied)
    code, out, err = command("chunk", tmp_path, "--url", running.url)
    assert (code, out) == (3, "=== b/a.txt: a.txt\n\n--- 1  (1 token)\nwords\n\n")
    assert err.count("refused: c.png: its name must end with") == 1
    assert "refused: large.md: it has more than 33,554,432 bytes\n" in err
    assert re.search(r"refused: locked\.md: .*cannot be read: Permission denied\.\n", err)
    assert "refused: \ufffd.png: its name must end with" in err
    assert "1 document, 1 chunk of 1 token\nrefused:\n     3 × its name must end" in err
    code, out, err = command("chunk", tmp_path / "c.png", "--url", running.url)
    assert (code, out, err.count("\n")) == (1, "", 1)


@pytest.mark.parametrize(
    ("name", "options", "status", "message"),
    [
        ("missing/a.txt", [], 1, "cannot be read: No such file"),
        ("a.txt", ["--tokens", "9000"], 1, "chunk_tokens must be from 8 to 254"),
        ("a.txt", ["--url", "http://127.0.0.1:1"], 1, "Is scripts/serve running?"),
    ],
)
def test_the_command_says_what_is_wrong(
    running, tmp_path, command, *, name, options, status, message
):
    """Files that it cannot send, options that the endpoint refuses, and no endpoint."""
    (tmp_path / "a.txt").write_text("words")
    code, _, err = command("chunk", tmp_path / name, "--url", running.url, *options)
    assert (code, message in err) == (status, True)


def test_a_summary_counts_equal_sentences_together():
    """Whatever the numbers of the document in them; the most frequent ones come first."""
    summary = DocumentSummary()
    lines = [summary.refuse(f"{n}.txt", f"byte {n} is not utf-8") for n in (1, 20, 3)]
    assert lines[1] == "refused: 20.txt: byte 20 is not utf-8"
    summary.refuse("a.png", "it has no text")
    for suffix in (".log", ".7z"):
        summary.refuse(f"a{suffix}", f"its name must end with .txt; found {suffix}")
    assert [*summary.add("a.csv", COUNTS | {"cut": 2, "unknown": 1}, ["line 3 is broken"])] == [
        "problem: a.csv: line 3 is broken"
    ]
    pages = [f"pages {pages} have no text layer" for pages in ("2 to 9 and 12", "1, 3 and 4")]
    assert len([*summary.add("b.pdf", COUNTS | {"longest": 64, "shortest": 1}, pages)]) == 2
    assert [*summary.lines()] == [
        "2 documents, 4 chunks of 1 to 64 tokens",
        "2 blocks cut: longer than a chunk",
        "6.2% of the tokens are unknown to the model",
        "problems:",
        "     2 × pages … have no text layer",
        "     1 × line … is broken",
        "refused:",
        "     3 × byte … is not utf-8",
        "     2 × its name must end with .txt; found …",
        "     1 × it has no text",
    ]
    list(summary.add("c.md", COUNTS | {"unknown": 5}, []))
    assert "25.0% of the tokens are unknown to the model: it does not know the language" in [
        *summary.lines()
    ]
