"""Documents of all formats, and hostile ones: read, or refused by name within bounds."""

import io
import time
import zlib

import pypdf
import pytest

from jobs.documents.chunking import Chunker
from jobs.documents.chunks import read_chunks
from jobs.documents.document import RefusedDocumentError
from jobs.documents.reader import read_document
from jobs.storage import Folder, open_folder


def read(key: str, data: bytes | str, content_type: str = "", wanted=("year", "tags")):
    data = data.encode() if isinstance(data, str) else data
    return read_document(key, data, {"Content-Type": content_type}, wanted=wanted)


def pdf(content: bytes, *, pages: int = 1, packed: bytes | None = None) -> bytes:
    """Return a PDF with one content stream on each page; `packed` is the stream as it is stored."""
    packed = packed or zlib.compress(content)
    kids = " ".join(f"{4 + n} 0 R" for n in range(pages))
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {pages}>>".encode(),
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(packed), packed),
        *[
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Contents 3 0 R"
            b"/Resources<</Font<</F1 %s>>>>>>" % font
        ]
        * pages,
    ]
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, io.SEEK_END)
    offsets = []
    for number, body in enumerate(objects, 1):
        offsets.append(out.tell())
        out.write(b"%d 0 obj%s endobj\n" % (number, body))
    start = out.tell()
    out.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    out.write(b"".join(b"%010d 00000 n \n" % offset for offset in offsets))
    out.write(b"trailer<</Root 1 0 R/Size %d>>\nstartxref\n%d\n%%%%EOF" % (len(objects) + 1, start))
    return out.getvalue()


def encrypted(content: bytes) -> bytes:
    """Return a PDF with a password."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(content))
    writer.encrypt("secret", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_a_pdf_has_its_text_by_page():
    """The heading of a chunk is the page."""
    found = read("a.pdf", pdf(b"BT /F1 12 Tf 1 1 Td (Hello text layer) Tj ET", pages=2))
    assert [(block.text, block.headings) for block in found.blocks] == [
        ("Hello text layer", ("page 1",)),
        ("Hello text layer", ("page 2",)),
    ]
    assert found.title == "a.pdf"


@pytest.mark.parametrize(
    ("key", "data", "problem"),
    [
        ("a.png", b"x", "the key must end with .txt, .md"),
        ("a", b"x", "found no suffix"),
        ("a.txt", b"", "it has no text"),
        ("a.txt", b"a\xe9", "byte 1 is not utf-8"),
        ("a.txt", b"a\0b", "NUL characters"),
        ("a.jsonl", b'{"text": "a"}\n{"text": ', "line 2 is not JSON"),
        ("a.jsonl", b'{"text": "a", "year": {"a": 1}}', "line 1: year must be text, a number"),
        ("a.csv", b"a,b\n1", "line 2 has 1 cell; the header has 2"),
        ("a.md", b"---\nyear:\n  from: 1\n---\ntext", "line 3: year in the front matter must be"),
        ("a.md", b"---\nyear: 1\nyear: 2\n---\ntext", "has year twice"),
        ("a.pdf", b"no pdf", "it is not a valid PDF"),
        ("a.pdf", pdf(b""), "it has no text layer"),
        pytest.param(
            *("a.pdf", encrypted(pdf(b"BT (x) Tj ET")), "it is encrypted with a password"),
            id="encrypted",
        ),
        # A page tree that holds itself.
        ("a.pdf", pdf(b"BT /F1 12 Tf (x) Tj ET").replace(b"Kids[4 0 R]", b"Kids[2 0 R]"), "it "),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(key, data, problem):
    """The whole document is refused, not a row or a page of it."""
    with pytest.raises(RefusedDocumentError) as caught:
        read(key, data)
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        ("grün".encode(), ""),
        (b"\xef\xbb\xbf" + "grün".encode(), "text/plain; charset=UTF-8"),
        ("grün".encode("utf-16"), "text/plain"),
        ("grün".encode("latin-1"), "text/plain; charset=iso-8859-1"),
    ],
)
def test_text_is_decoded_as_its_mark_or_its_content_type_says(data, content_type):
    """UTF-8 without either."""
    assert read("a.txt", data, content_type).blocks[0].text == "grün"


@pytest.mark.parametrize("charset", ["unknown", "hex", "zip", "rot13"])
def test_a_charset_that_is_no_text_encoding_is_refused(charset):
    """Python's codecs also unpack, and `zip` is a bomb's name."""
    with pytest.raises(RefusedDocumentError, match="must be a text encoding"):
        read("a.txt", zlib.compress(b"a" * 10**6), f"text/plain; charset={charset}")


def test_a_row_without_text_shows_its_fields():
    """A table of products is searched by all of its columns."""
    (block,) = read("a.csv", "name,price,year\npen,3,2024\n").blocks
    assert block.text == "name: pen\nprice: 3\nyear: 2024"
    assert block.metadata == {"year": 2024}


def test_front_matter_is_metadata_and_no_text():
    """Lists in both forms, and other entries are left out."""
    text = "---\ntitle: T\ntags:\n  - a\n  - 2\nother:\n  deep: 1\nyear: 2.5\n---\nwords"
    found = read("a.md", text)
    assert (found.title, found.metadata) == ("T", {"tags": ["a", 2], "year": 2.5})
    assert [block.text for block in found.blocks] == ["words"]


def bomb() -> bytes:
    """Return a PDF of some kilobytes with a page of 400 MB."""
    packer = zlib.compressobj(1)
    spaces = b" " * 4_000_000
    return pdf(b"", packed=b"".join(packer.compress(spaces) for _ in range(100)) + packer.flush())


@pytest.mark.parametrize(
    ("key", "data", "problem"),
    [
        pytest.param(
            "headings.md", lambda: b"# h\n" * 10**6, "paragraphs or rows", marks=pytest.mark.slow
        ),
        ("headings.md", lambda: b"# h\n" * 210_000, "paragraphs or rows"),
        ("rows.jsonl", lambda: b'{"text": "a"}\n' * 210_000, "paragraphs or rows"),
        ("open.html", lambda: b"<div><p>a" * 210_000, "paragraphs or rows"),
        ("bomb.pdf", bomb, "its text takes more memory"),
    ],
)
def test_a_hostile_document_is_refused_soon(key, data, problem):
    """Within a minute of CPU time; the process that reads a PDF has limits of its own."""
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
    monkeypatch.delattr(Folder, "read_object")
    chunker = Chunker(engine.request_tokenizer)
    with pytest.raises(RefusedDocumentError, match="1,073,741,824 bytes; up to 33,554,432 are"):
        read_chunks(folder, file.key, file.size, chunker, wanted=(), non_filterable=())


def test_a_pdf_that_takes_too_long_is_refused(monkeypatch):
    """The process that reads it ends with its time."""
    monkeypatch.setattr("jobs.documents.pdf._SECONDS", 0.01)
    with pytest.raises(RefusedDocumentError, match=r"more than 0\.01 seconds"):
        read("a.pdf", pdf(b"x"))
