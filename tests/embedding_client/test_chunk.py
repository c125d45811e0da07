"""Chunks of documents: both clients and `embed chunk`, at a real `scripts/serve`."""

import json
from typing import Any

import pytest

from embedding_client import RequestError
from embedding_client.document_summary import DocumentReport, DocumentSummary
from tests.embedding_client.answers import asynchronously

DOCUMENT = "---\nyear: 2024\n---\n# Dates\n\nParse a string.\n\n## Zones\n\nUse UTC."
CHUNKS = [
    {"text": "Parse a string.", "headings": ["Dates"], "tokens": 5, "metadata": {}},
    {"text": "Use UTC.", "headings": ["Dates", "Zones"], "tokens": 3, "metadata": {}},
]


def test_both_clients_return_the_chunks(running, client):
    """Of any format, by the name; sizes that the model does not take are refused by name."""
    options: Any = {"metadata": ["year"], "chunk_tokens": 64, "overlap_tokens": 0}
    answer = client.chunk("dates.md", DOCUMENT.encode(), **options)
    assert answer["chunks"] == CHUNKS
    assert (answer["title"], answer["metadata"]) == ("Dates", {"year": 2024})
    data = DOCUMENT.encode()
    divided = asynchronously(lambda other: other.chunk("dates.md", data, **options), running.url)
    assert divided == answer
    row = client.chunk("a/rows.jsonl", b'{"text": "a row", "year": 2020}', metadata=["year"])
    assert row["chunks"][0] == {
        "text": "a row",
        "headings": [],
        "tokens": 2,
        "metadata": {"year": 2020},
    }
    with pytest.raises(RequestError, match="byte 7000000 is not utf-8"):  # over Lambda's 6 MB
        client.chunk("large.txt", b"a" * 7_000_000 + b"\xff")


@pytest.mark.parametrize(
    ("name", "options", "code", "message"),
    [
        ("a.pdf", {}, "refused_document", "PDF"),
        ("a.exe", {}, "refused_document", "must end with"),
        ("a.txt", {"chunk_tokens": 255}, "invalid_field", "chunk_tokens must be from 8 to 254"),
        ("a.txt", {"overlap_tokens": 200}, "invalid_field", "overlap_tokens must be from 0 to"),
        ("a.txt", {"metadata": [1]}, "invalid_field", '"metadata" must be a list of strings'),
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
    assert out.startswith("=== dates.md: Dates\nyear: 2024\n\n--- 1 > Dates  (5 tokens)\nParse")
    assert "--- 2 > Dates > Zones  (3 tokens)\nUse UTC.\n" in out
    assert (code, err) == (0, "1 document, 2 chunks of 3 to 5 tokens\n")
    options = ("--metadata", "year", "--json", "--url", running.url)
    lines = map(json.loads, command("chunk", file, *options)[1].splitlines())
    more = {"document": "dates.md", "title": "Dates", "metadata": {"year": 2024}}
    assert [*lines] == [chunk | more for chunk in CHUNKS]


def test_a_folder_is_divided_as_ingest_would(running, tmp_path, command):
    """Each refused file is named; ignored ones are not; the status says that some are missing."""
    for name in ("b/a.txt", "b/_draft.txt", ".git/a.txt", "c.png", "d.jpg", "e.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("words")
    code, out, err = command("chunk", tmp_path, "--url", running.url)
    assert (code, out) == (3, "=== b/a.txt: a.txt\n\n--- 1  (1 token)\nwords\n\n")
    assert err.count("refused: c.png: the key must end with") == 1
    assert "1 document, 1 chunk of 1 to 1 token\n3 documents refused:\n    2  the key must" in err
    assert command("chunk", tmp_path / "c.png", "--url", running.url)[0] == 1


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


def test_equal_reasons_are_counted_together():
    """Whatever the numbers of the document in them; the most frequent ones come first."""
    summary = DocumentSummary()
    lines = [summary.refuse(f"{n}.txt", f"byte {n} is not utf-8") for n in (1, 20, 3)]
    assert lines[1] == "refused: 20.txt: byte 20 is not utf-8"
    assert [*summary.add(DocumentReport("a.csv", [4, 1], ["line 3 is broken"]))] == [
        "left out: a.csv: line 3 is broken"
    ]
    summary.refuse("a.png", "it has no text")
    assert [*summary.lines()] == [
        "1 document, 2 chunks of 1 to 4 tokens",
        "4 documents refused:",
        "    3  byte … is not utf-…",
        "    1  it has no text",
    ]
