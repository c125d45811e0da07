"""Bytes to text: the encoding is what a browser would take."""

import codecs
import zlib

import pytest

from jobs.documents.decoding import decoded
from jobs.documents.document import RefusedDocumentError

LATIN = "grün"
JAPANESE = "日本①"


@pytest.mark.parametrize(
    ("data", "content_type", "text"),
    [
        (LATIN.encode(), "", LATIN),
        (LATIN.encode("latin-1"), "text/plain; charset=ISO-8859-1", LATIN),
        (b"\x93a\x94\x81", "text/plain;charset='latin1'", "“a”\x81"),
        (JAPANESE.encode("cp932"), "text/plain; charset=x-sjis", JAPANESE),
        (JAPANESE.encode("cp932"), "text/plain; charset=Shift_JIS", JAPANESE),
        ("汉€字㐀".encode("gb18030"), "text/plain; charset=gb2312", "汉€字㐀"),
        ("똠".encode("cp949"), "text/plain; charset=euc-kr", "똠"),
        ("ก".encode("cp874"), "text/plain; charset=windows-874", "ก"),
        # A mark is before a content type.
        (codecs.BOM_UTF8 + LATIN.encode(), "text/plain; charset=iso-8859-1", LATIN),
        (LATIN.encode("utf-16"), "text/plain; charset=utf-8", LATIN),
        (codecs.BOM_UTF16_BE + LATIN.encode("utf-16-be"), "", LATIN),
        (codecs.BOM_UTF8, "", ""),
    ],
)
def test_text_is_decoded_as_its_mark_or_its_content_type_says(data, content_type, text):
    """Else as UTF-8; with the characters that the web adds to an encoding."""
    assert decoded(data, content_type) == text


@pytest.mark.parametrize(
    ("head", "content_type", "encoding"),
    [
        ("<meta charset=windows-1251>", "", "cp1251"),
        (
            "<!-- <meta charset=utf-8> --><META name=a content=b><meta charset = 'koi8-r' />",
            "",
            "koi8-r",
        ),
        (
            '<meta http-equiv="Content-Type" content="text/html; charset=windows-1251">',
            "",
            "cp1251",
        ),
        ('<?xml version="1.0" encoding="iso-8859-5"?><html>', "", "iso8859-5"),
        ("<meta charset=utf-16>", "", "utf-8"),
        ("<meta charset=koi8-r>", "text/html; charset=windows-1251", "cp1251"),
        ("<meta charset=koi8-r>", "", "utf-8-sig"),
        ("<meta charset=iso-8859-1>", "", "utf-8"),
        (" " * 1024 + "<meta charset=koi8-r>", "", "utf-8"),
    ],
)
def test_html_declares_its_encoding(head, content_type, encoding):
    """In its first 1,024 bytes, after a mark and the content type."""
    html = head + "<p>Привет"
    assert decoded(html.encode(encoding), content_type, is_html=True) == html


@pytest.mark.parametrize(
    ("data", "content_type", "is_html", "problem"),
    [
        (
            b"a\xe9",
            "",
            False,
            "byte 1 is not utf-8 (0xe9); save it as UTF-8, or name its charset in the",
        ),
        (b"a\xe9", "", True, "its charset in <meta charset> or the content type"),
        (
            b"a\x81\x1f",
            "text/plain; charset=x-sjis",
            False,
            "byte 1 is not x-sjis (0x81); its content type",
        ),
        (b"<meta charset=utf-8>\xff", "", True, "byte 20 is not utf-8 (0xff); it declares this"),
        (b"\xff\xfea", "", False, "byte 2 is not utf-16-le (0x61); its byte order mark says so"),
        (b"a\0b", "", False, "NUL characters"),
        *[
            (
                zlib.compress(b"a" * 10**6),
                f"text/plain; charset={charset}",
                False,
                "a text encoding",
            )
            for charset in ["unknown", "hex", "zip", "rot13", "idna", "unicode_escape", "x-"]
        ],
    ],
)
def test_what_cannot_be_decoded_is_refused(data, content_type, is_html, problem):
    """With the byte, and what to do. Python's codecs also unpack, and `zip` is a bomb's name."""
    with pytest.raises(RefusedDocumentError) as caught:
        decoded(data, content_type, is_html=is_html)
    assert problem in str(caught.value)
