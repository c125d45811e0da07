"""Chunks of a document: both clients and `embed chunk`, at a real endpoint."""

import json

import pytest

from embedding_client import ConfigurationError, RequestError
from tests.embedding_client.answers import asynchronously

DOCUMENT = "# Dates\n\nParse a string.\n\n## Zones\n\nUse UTC."
CHUNKS = [
    {"text": "Parse a string.", "headings": ["Dates"], "tokens": 5},
    {"text": "Use UTC.", "headings": ["Dates", "Zones"], "tokens": 3},
]


def test_both_clients_return_the_chunks(running, client):
    """They are those of the endpoint, with its errors."""
    found = client.chunk(DOCUMENT, format="markdown", chunk_tokens=64, overlap_tokens=0)
    assert found == {"title": "Dates", "chunks": CHUNKS}
    divided = asynchronously(lambda other: other.chunk(DOCUMENT, format="markdown"), running.url)
    assert divided == found
    with pytest.raises(RequestError, match="chunk_tokens must be from 8 to 254"):
        client.chunk(DOCUMENT, chunk_tokens=255)
    with pytest.raises(ConfigurationError, match="blank"):
        client.chunk(" ")


def test_the_command_shows_the_chunks(running, tmp_path, command):
    """As text with the numbers and headings, or as JSON lines."""
    file = tmp_path / "dates.md"
    file.write_text(DOCUMENT)
    code, out, err = command("chunk", file, "--url", running.url)
    assert "--- 2 > Dates > Zones  (3 tokens)\nUse UTC.\n" in out
    assert (code, err) == (0, f"{file}: 2 chunks, 8 tokens\n")
    out = command("chunk", file, "--json", "--url", running.url)[1]
    assert list(map(json.loads, out.splitlines())) == CHUNKS
    file.write_text("UTC")
    assert command("chunk", file, "--url", running.url)[2] == f"{file}: 1 chunk, 1 token\n"


@pytest.mark.parametrize(
    ("name", "content", "options", "status", "message"),
    [
        ("a.pdf", b"x", [], 2, "must end with .txt, .md, .markdown, .html, .htm"),
        ("a.txt", b"\xff", [], 1, "is not UTF-8 at byte 0"),
        ("missing/a.txt", None, [], 1, "cannot be read: No such file"),
        ("a.txt", b"words", ["--tokens", "9000"], 1, "--tokens must be a whole number from 1 to"),
    ],
)
def test_the_command_says_what_is_wrong(
    running, tmp_path, command, *, name, content, options, status, message
):
    """Files that it cannot send, and options that the endpoint refuses."""
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, _, err = command("chunk", tmp_path / name, *options, "--url", running.url)
    assert (code, message in err) == (status, True)
