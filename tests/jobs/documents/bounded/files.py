"""Files of each format, written part by part."""

import zlib

_FONT = (
    b"<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica"
    b"/Encoding<</Differences[1/fi/ff]>>>>>>>>"
)


def pdf(*contents: bytes, catalog: bytes = b"", page: bytes = b"", objects: bytes = b"") -> bytes:
    """Return a PDF with a page for each content stream, of which numbers begin at 10.

    `catalog` and `page` are further entries of these, `objects` further objects.
    """
    kids = b" ".join(b"%d 0 R" % (10 + 2 * n) for n in range(len(contents)))
    file = b"%PDF-1.7\n1 0 obj<</Type/Catalog/Pages 2 0 R" + catalog + b">>endobj\n"
    file += b"2 0 obj<</Type/Pages/Kids[%s]/Count %d>>endobj\n" % (kids, len(contents)) + objects
    for number, content in enumerate(contents):
        entries = (10 + 2 * number, _FONT, 11 + 2 * number, page)
        file += b"%d 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 500 500]/Resources%s" % entries[:2]
        file += b"/Contents %d 0 R%s>>endobj\n" % entries[2:]
        packed = content if content.startswith(b"\x78") else zlib.compress(content)
        file += b"%d 0 obj<</Filter/FlateDecode/Length %d>>stream\n" % (
            11 + 2 * number,
            len(packed),
        )
        file += packed + b"\nendstream endobj\n"
    # Without a table of its objects, which readers then look for.
    return file + b"trailer<</Root 1 0 R/Size 99>>\nstartxref\n0\n%%EOF"


def lines(*texts: str) -> bytes:
    """Return a content stream with lines of text."""
    shown = " ".join(f"({text}) Tj T*" for text in texts)
    return f"BT /F1 12 Tf 14 TL 20 450 Td {shown} ET".encode("latin-1")
