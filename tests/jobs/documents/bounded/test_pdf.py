"""Text, bookmarks, fields and encryption of PDF files."""

import io

import pypdf
import pytest

from jobs.documents.document import RefusedDocumentError
from jobs.documents.reader import read_document
from tests.jobs.documents.bounded.files import lines, pdf

IMAGE = b"q 9 0 0 9 0 0 cm BI /W 1 /H 1 /BPC 8 /CS /G ID x EI Q"


def encrypted(algorithm: str, user: str) -> bytes:
    """Return a PDF that an owner's password protects, and maybe a user's."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf(lines("For your eyes"))))
    writer.encrypt(user, "owner", algorithm=algorithm)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def read(data: bytes):
    return read_document("a.pdf", data, {}, wanted=())


def texts(data: bytes) -> list[str]:
    return [block.text for block in read(data).blocks]


@pytest.mark.parametrize("algorithm", ["RC4-128", "AES-128", "AES-256"])
def test_only_a_password_to_open_it_keeps_a_pdf_from_being_read(algorithm):
    """Publishers and banks forbid to print and copy by an owner's password alone."""
    assert texts(encrypted(algorithm, user="")) == ["For your eyes"]
    with pytest.raises(RefusedDocumentError, match="it is encrypted with a password"):
        read(encrypted(algorithm, user="secret"))


def test_a_bookmark_is_a_heading_and_a_page_is_metadata():
    """A section begins at the line that has the bookmark's title, and ends with its page too."""
    outline = (
        b"3 0 obj<</Type/Outlines/First 4 0 R/Last 4 0 R>>endobj\n"
        b"4 0 obj<</Title(Install)/Parent 3 0 R/Dest[10 0 R/Fit]/First 5 0 R/Last 6 0 R>>endobj\n"
        b"5 0 obj<</Title(On Linux)/Parent 4 0 R/Dest[10 0 R/Fit]/Next 6 0 R>>endobj\n"
        b"6 0 obj<</Title( )/Parent 4 0 R/Dest[10 0 R/Fit]>>endobj\n"
    )
    first = lines("A manual", "1 Install", "Unpack it.", "1.1 On Linux", "Use apt.")
    data = pdf(first, lines("More of it."), catalog=b"/Outlines 3 0 R", objects=outline)
    assert [(block.headings, block.text, block.metadata) for block in read(data).blocks] == [
        ((), "A manual", {"page": 1}),
        (("1 Install",), "Unpack it.", {"page": 1}),
        (("1 Install", "1.1 On Linux"), "Use apt.", {"page": 1}),
        (("1 Install", "1.1 On Linux"), "More of it.", {"page": 2}),
    ]
    assert len({block.section for block in read(data).blocks}) == 4


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (["The \x01nancial o\x02ice"], "The financial office"),
        (["de-", "partment"], "department"),
        # The document has the word elsewhere, or both of its halves.
        (["A self-contained one. It is self-", "contained."], "one. It is self-contained."),
        (["long and running: a long-", "running job"], "a long-running job"),
        (["Donau-", "Dampfschiff, x-", "axis"], "Donau-Dampfschiff, x-axis"),
        (["from 2010-", "2020"], "2010-\n2020"),
        (["ls -a", "$ pwd"], "ls -a\n$ pwd"),
        (
            ["A long line that is about as wide as a page of a book is, and", "ends there."],
            "and ends there.",
        ),
        # A table of contents; other dots stay.
        (
            ["2.1 Pumps . . . . . . . . 17", "Preface........ iv", "Name: ......"],
            "2.1 Pumps 17\nPreface iv\nName: ......",
        ),
    ],
)
def test_what_setting_type_did_to_words_is_undone(shown, text):
    """Ligatures, divided words, lines within a sentence, and dots before a page number."""
    assert texts(pdf(lines(*shown)))[0].endswith(text)


def test_pages_without_text_are_named():
    """A picture of text is one; an empty page, or one with a rule alone, misses nothing."""
    pages = [lines("Cover"), IMAGE, IMAGE, b"", b"0 0 m 9 9 l S", lines("x"), IMAGE]
    found = read(pdf(*pages))
    assert found.problems == ("pages 2 to 3 and 7 have no text layer",)
    assert [block.metadata["page"] for block in found.blocks] == [1, 6]


def test_fields_of_a_form_are_text():
    """By the name that a reader sees, as far as they are filled in."""
    fields = [
        b"/FT/Tx/T(a1)/TU(Your name)/V(Ada)",
        b"/FT/Tx/T(Town)/V(\xfe\xff\x00K\x00\xf6\x00l\x00n)",
        b"/FT/Tx/T(Empty)",
        b"/FT/Btn/T(Agreed)/V/Yes/AS/Yes/AP<</N<</Yes 9 0 R/Off 9 0 R>>>>",
        b"/FT/Btn/T(Refused)/V/Off/AS/Off/AP<</N<</Yes 9 0 R/Off 9 0 R>>>>",
    ]
    widget = b"%d 0 obj<</Type/Annot/Subtype/Widget/Rect[0 0 9 9]%s>>endobj\n"
    objects = b"".join(widget % (3 + n, field) for n, field in enumerate(fields))
    objects += (
        b"9 0 obj<</Type/XObject/Subtype/Form/BBox[0 0 9 9]/Length 0>>stream\n\nendstream endobj\n"
    )
    names = b"[3 0 R 4 0 R 5 0 R 6 0 R 7 0 R]"
    data = pdf(
        lines("Form"),
        catalog=b"/AcroForm<</Fields%s>>" % names,
        page=b"/Annots" + names,
        objects=objects,
    )
    assert texts(data) == ["Form", "Your name: Ada\nTown: Köln\nAgreed: Yes"]
