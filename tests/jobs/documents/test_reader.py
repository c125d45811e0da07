"""Documents of all formats, and hostile ones: read, or refused by name within bounds."""

import time

import pytest

from jobs.documents.chunking import Chunker
from jobs.documents.chunks import read_chunks
from jobs.documents.document import RefusedDocumentError
from jobs.documents.prose import read_html_document
from jobs.documents.reader import read_document
from jobs.storage import DiskFolder, open_folder

#: A process that waits for the CPU may end by the clock.
BOUND = r"its text takes more than (90 s of CPU time|\d+ seconds)"


def read(key: str, data: bytes | str, content_type: str = "", wanted=("year", "tags")):
    data = data.encode() if isinstance(data, str) else data
    return read_document(key, data, {"Content-Type": content_type}, wanted=wanted)


@pytest.mark.parametrize(
    ("key", "data", "problem"),
    [
        ("a.png", b"x", "its name must end with .txt, .md"),
        ("a", b"x", "found no suffix"),
        ("a.xls", b"x", ".xls is not read; `soffice --convert-to xlsx` converts it"),
        ("a.pdf.metadata.json", b"{}", "has metadata for Bedrock, which are not read"),
        ("a.txt", b"", "it is empty"),
        ("a.docx", b"", "it is empty"),
        ("a.txt", b" ", "it has no text"),
        ("a.txt", b"a\xe9", "byte 1 is not utf-8 (0xe9); save it as UTF-8, or name its charset"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(key, data, problem):
    """The whole document is refused."""
    with pytest.raises(RefusedDocumentError) as caught:
        read(key, data)
    assert problem in str(caught.value)


def test_html_declares_its_encoding():
    """A content type is before it."""
    html = "<meta charset=cp1251><title>Привет,\u00ad\u200b мир</title><p>да".encode(
        "cp1251", "ignore"
    )
    document = read("a.html", html)
    assert (document.title, document.blocks[0].text) == ("Привет, мир", "да")
    assert read("a.html", html, "text/html; charset=latin1").title == "Ïðèâåò, ìèð"


def test_a_large_page_is_read_as_a_small_one():
    """Though in a process with limits."""
    html = "<title>T</title><h1>A</h1><pre><code>x</code></pre><table><th>b<tr><td>c</table>" * 1000
    titled = read("a.html", html).blocks
    untitled = read_html_document(html.encode(), "", ()).blocks
    assert titled == [block._replace(headings=("T", *block.headings)) for block in untitled]
    assert [block.opening for block in titled[-2:]] == ["```", "b"]


def test_front_matter_is_metadata_and_no_text():
    """Its title is that of the document, and other keys are left out."""
    document = read("a.md", "+++\ntitle = 'T'\nother = 1\nyear = 2.5\n+++\n# H\nwords")
    assert (document.title, document.metadata) == ("T", {"year": 2.5})
    assert [block.text for block in document.blocks] == ["words"]


@pytest.mark.parametrize(
    ("key", "data", "problem"),
    [
        pytest.param(
            *("headings.md", lambda: b"# h\n" * 210_000, "paragraphs or rows"),
            marks=pytest.mark.slow,
        ),
        pytest.param(*("open.md", lambda: b"![" * 10**6, BOUND), marks=pytest.mark.slow),
        ("rows.jsonl", lambda: b'{"text": "a"}\n' * 210_000, "paragraphs or rows"),
        ("open.html", lambda: b"<p>a" * 210_000, "paragraphs or rows"),
    ],
)
def test_a_hostile_document_is_refused_soon(key, data, problem):
    """Within a minute of CPU time of this process, and 90 s of one with limits."""
    began = time.process_time()
    with pytest.raises(RefusedDocumentError, match=problem):
        read(key, data() if callable(data) else data)
    assert time.process_time() - began < 60


def test_a_gigabyte_is_refused_without_being_read(tmp_path, monkeypatch, engine):
    """By the size that the bucket says."""
    with (tmp_path / "a.txt").open("wb") as sparse:
        sparse.truncate(1 << 30)
    folder = open_folder(str(tmp_path))
    (file,) = folder.files()
    monkeypatch.delattr(DiskFolder, "read_object")
    chunker = Chunker(engine.request_tokenizer)
    with pytest.raises(RefusedDocumentError, match="1,073,741,824 bytes; up to 33,554,432 are"):
        read_chunks(folder, file.key, file.size, chunker, wanted=(), non_filterable=())
