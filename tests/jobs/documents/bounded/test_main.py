"""Hostile and broken files of each format: the process that reads them is bounded."""

import io
import sys
import zipfile
import zlib
from itertools import pairwise

import pytest

from jobs.documents import bounded
from jobs.documents.document import RefusedDocumentError
from jobs.documents.reader import read_document
from tests.jobs.documents.bounded.files import (
    docx,
    epub,
    lines,
    paragraph,
    pdf,
    pptx,
    relationships,
    shape,
    slide,
    xlsx,
    zipped,
)

MEMORY = "its text takes more than 1,024 MB of memory"
NESTED = "its parts are nested too deeply"


def packed(unit: bytes, count: int) -> bytes:
    """Return a compressed stream of a megabyte's repetitions, without making it whole."""
    packer = zlib.compressobj(1)
    return b"".join(packer.compress(unit) for _ in range(count)) + packer.flush()


PDFS = {
    "unpacked": (lambda: pdf(packed(b" " * 4_000_000, 500)), MEMORY),
    "nested": (lambda: pdf(packed(b"q " * 1_000_000, 30)), MEMORY),
    "words": (lambda: pdf(packed(b"BT /F1 9 Tf (a b c) Tj ET " * 100_000, 30)), MEMORY),
    "cycle": (lambda: pdf(lines("x")).replace(b"[10 0 R]", b"[2 0 R]"), "it has no text"),
    "cut": (lambda: pdf(lines("x"))[:200], "it is not a valid PDF"),
    "HTML": (lambda: b"<!DOCTYPE html><p>x", "it must be a PDF; found HTML"),
}
MEGABYTE = b"a" * (1 << 20)
LAUGHS = (
    '<!DOCTYPE x [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {b} "{f"&{a};" * 99}">' for a, b in pairwise("abcdefghij"))
    + "]>"
)
FOREIGN = '<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/hostname">]>'
#: Office files with a password, and those of before 2007, are no ZIP files.
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def big(name: str, megabytes: int = 1100) -> bytes:
    """Return a ZIP file with a part that unpacks to this size."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open(name, "w", force_zip64=True) as part:
            for _ in range(megabytes):
                part.write(MEGABYTE)
        archive.writestr("_rels/.rels", relationships(main=f"officeDocument {name}"))
    return file.getvalue()


def deep(tag: str) -> str:
    return f"<{tag}>" * 200_000 + f"</{tag}>" * 200_000


def long_cell() -> str:
    return (
        f'<sheetData><row r="1"><c r="A1" t="str"><v>{"a" * (200 << 20)}</v></c></row></sheetData>'
    )


OFFICE = {
    "password": (lambda: OLE + "EncryptedPackage".encode("utf-16-le"), "encrypted with a password"),
    "before 2007": (lambda: OLE, "must be a ZIP file; found a file of Word, Excel or PowerPoint"),
    "HTML": (lambda: b"\n<html><table>", "must be a ZIP file; found HTML"),
    "another": (lambda: zipped({"a.txt": b"x"}), "found another ZIP file"),
    "cut": (lambda: docx("x")[:300], "it is not valid .* [(]BadZipFile[)]"),
}
ZIPS = {
    ".docx": OFFICE
    | {
        "PPTX": (lambda: pptx(slide()), "it must be DOCX; found PPTX"),
        "bomb": (lambda: big("word/document.xml"), "unpacks to more than 268,435,456 bytes"),
        "laughs": (lambda: docx(paragraph("&j;"), doctype=LAUGHS), "it is not valid DOCX"),
        "foreign": (lambda: docx(paragraph("&a;"), doctype=FOREIGN), "it is not valid DOCX"),
        "deep": (lambda: docx(deep("sdt")), NESTED),
        "of HTML": (lambda: docx('<altChunk id="rId1"/>'), "inserted files"),
    },
    ".pptx": OFFICE
    | {
        "bomb": (lambda: big("ppt/presentation.xml"), "unpacks to more than 268,435,456 bytes"),
        "laughs": (lambda: pptx(LAUGHS + slide(shape("&j;"))), "it is not valid PPTX"),
        "foreign": (lambda: pptx(FOREIGN + slide(shape("&a;"))), "it is not valid PPTX"),
        "slides": (lambda: pptx(slide(shape(*["x"] * 300_000))), "paragraphs or rows"),
    },
    ".xlsx": OFFICE
    | {
        "bomb": (lambda: big("xl/workbook.xml"), "unpacks to more than 268,435,456 bytes"),
        "cell": (lambda: xlsx(long_cell()), "more than 33,554,432 characters of text"),
        "laughs": (lambda: xlsx("", strings=f"{LAUGHS}<sst>&j;</sst>"), "it is not valid XLSX"),
        "foreign": (lambda: xlsx("", strings=f"{FOREIGN}<sst>&a;</sst>"), "it is not valid XLSX"),
        "empty": (
            lambda: xlsx(*['<dimension ref="A1:XFD1048576"/><sheetData/>'] * 99),
            "it has no text",
        ),
    },
    ".epub": {
        "another": OFFICE["another"],
        "DRM": (
            lambda: epub(
                "<p>x",
                **{
                    "META-INF/encryption.xml": "<encryption><EncryptedData><EncryptionMethod "
                    'Algorithm="http://www.w3.org/2001/04/xmlenc#aes128-cbc"/></EncryptedData>'
                    "</encryption>"
                },
            ),
            "rights management",
        ),
        "bomb": (lambda: big("META-INF/container.xml"), "unpacks to more than 268,435,456 bytes"),
    },
}
TEXTS = {
    ".rst": {
        "deep": (lambda: b"".join(b" " * n + b"* a\n\n" for n in range(2000)), NESTED),
        "substitutions": (
            lambda: (
                b".. |a| replace:: ha\n"
                + b"".join(
                    b".. |%c| replace:: %s\n" % (b, b"|%c| " % a * 99)
                    for a, b in pairwise(b"abcdef")
                )
                + b"\n|f|"
            ),
            "its text takes more than",
        ),
    },
    ".ipynb": {
        "JSON": (lambda: b"[1]", "it is no notebook"),
        "text": (lambda: b"x", "is not JSON"),
    },
    ".json": {"deep": (lambda: b"[" * 10**6, "it is not JSON")},
    ".eml": {"encrypted": (lambda: b"Content-Type: application/pkcs7-mime\n\nx", "is encrypted")},
}
SLOW = {"substitutions": pytest.mark.slow}
FILES = [
    pytest.param(suffix, *file, id=f"{name}{suffix}", marks=SLOW.get(name, ()))
    for suffix, files in {".pdf": PDFS, **ZIPS, **TEXTS}.items()
    for name, file in files.items()
]


@pytest.mark.parametrize(("suffix", "data", "problem"), FILES)
def test_a_hostile_file_is_refused_by_name(suffix, data, problem):
    """Within the memory and the time that its process has, each of which has its own message."""
    with pytest.raises(RefusedDocumentError, match=problem):
        read_document(f"a{suffix}", data(), {}, wanted=())


@pytest.mark.parametrize("suffix", [".docm", ".xlsm"])
def test_macros_are_not_read(suffix):
    """A file with macros is read as one without."""
    sheet = '<sheetData><row r="1048576"><c r="XFD1048576" t="str"><v>x</v></c></row></sheetData>'
    data = {".docm": docx(paragraph("x")), ".xlsm": xlsx(sheet)}[suffix]
    assert [block.text for block in read_document(f"a{suffix}", data, {}, wanted=()).blocks] == [
        "x"
    ]


def test_a_reader_that_lacks_a_package_refuses_no_document(monkeypatch, tmp_path):
    """The document is not at fault: it is tried again."""
    (tmp_path / "pypdfium2.py").write_text("raise ImportError('no such package')")
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])
    with pytest.raises(RuntimeError, match="the reader of pdf ended: ImportError: no such package"):
        read_document("a.pdf", pdf(b"x"), {}, wanted=())


def test_a_process_that_takes_too_long_is_ended(monkeypatch):
    """Also if it waits, and uses no CPU time."""
    monkeypatch.setattr(bounded, "_SECONDS", 0.01)
    with pytest.raises(RefusedDocumentError, match=r"more than 0\.01 seconds"):
        read_document("a.pdf", pdf(b"x"), {}, wanted=())
