"""Hostile and broken files of each format: the process that reads them is bounded."""

import time
import zlib

import pytest

from jobs.documents import bounded
from jobs.documents.document import RefusedDocumentError
from jobs.documents.reader import read_document
from tests.jobs.documents.bounded.files import lines, pdf

MEMORY = "its text takes more than 1,024 MB of memory"


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
FILES = [
    pytest.param(suffix, *file, id=f"{name}{suffix}")
    for suffix, files in {".pdf": PDFS}.items()
    for name, file in files.items()
]


@pytest.mark.parametrize(("suffix", "data", "problem"), FILES)
def test_a_hostile_file_is_refused_by_name(suffix, data, problem):
    """Within the memory and the time that its process has."""
    began = time.monotonic()
    with pytest.raises(RefusedDocumentError, match=problem):
        read_document(f"a{suffix}", data(), {}, wanted=())
    assert time.monotonic() - began < bounded._SECONDS


def test_a_process_that_takes_too_long_is_ended(monkeypatch):
    """Also if it waits, and uses no CPU time."""
    monkeypatch.setattr(bounded, "_SECONDS", 0.01)
    with pytest.raises(RefusedDocumentError, match=r"more than 0\.01 seconds"):
        read_document("a.pdf", pdf(b"x"), {}, wanted=())
