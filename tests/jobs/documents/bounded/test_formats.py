"""Text, headings, tables and metadata of the formats besides PDF."""

import json
from datetime import date, datetime
from io import BytesIO

import openpyxl
import pytest

from jobs.documents.reader import read_document
from tests.jobs.documents.bounded.files import docx, epub, paragraph, pptx, shape, slide

#: As Word writes them in German.
STYLES = """<styles>
<style styleId="berschrift1"><name val="heading 1"/></style>
<style styleId="Kapitel"><name val="Kapitel"/><basedOn val="berschrift1"/></style>
<style styleId="Teil"><name val="Teil"/><pPr><outlineLvl val="1"/></pPr></style>
<style styleId="Titel"><name val="Title"/></style>
<style styleId="Verzeichnis1"><name val="toc 1"/></style>
<style styleId="Kreis"><name val="Kreis"/><basedOn val="Kreis"/></style>
</styles>"""
NUMBERING = """<numbering>
<abstractNum abstractNumId="7"><lvl ilvl="0"><numFmt val="bullet"/></lvl></abstractNum>
<abstractNum abstractNumId="8"><lvl ilvl="0"><numFmt val="decimal"/></lvl></abstractNum>
<num numId="1"><abstractNumId val="7"/></num><num numId="2"><abstractNumId val="8"/></num>
</numbering>"""
NOTES = '<footnotes><footnote id="2"><p><r><t>See there.</t></r></p></footnote></footnotes>'


def style(name: str) -> str:
    return f'<pStyle val="{name}"/>'


def item(list_id: int, level: int = 0) -> str:
    return f'<numPr><ilvl val="{level}"/><numId val="{list_id}"/></numPr>'


def row(*cells: str, properties: str = "") -> str:
    return f"<tr><trPr>{properties}</trPr>{''.join(f'<tc>{paragraph(c)}</tc>' for c in cells)}</tr>"


def document(*body: str) -> bytes:
    return docx("".join(body), styles=STYLES, numbering=NUMBERING, footnotes=NOTES)


def read(suffix: str, data: bytes | str, wanted=()):
    data = data.encode() if isinstance(data, str) else data
    return read_document(f"a{suffix}", data, {}, wanted=wanted)


def workbook() -> bytes:
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "Prices"
    for cells in (
        ["Prices of 2024"],
        [],
        ["name", "price", "since", "year", "code"],
        ["Pen", 0.1 + 0.2, date(2024, 5, 1), 2024, "#N/A"],
        ["Ink", 3.0, datetime.fromisoformat("2024-05-01T10:30"), None, True],
    ):
        sheet.append(cells)
    book.create_sheet("Secret").append(["no"])
    book["Secret"].sheet_state = "hidden"
    book.create_sheet("Sheet3").append(["=1+1"])
    file = BytesIO()
    book.save(file)
    return file.getvalue()


@pytest.mark.parametrize(
    ("body", "blocks"),
    [
        (
            [
                paragraph("The title", style("Titel")),
                paragraph("Install ... 3", style("Verzeichnis1")),
                paragraph("Install", style("Kapitel")),
                paragraph("On Linux", style("Teil")),
                paragraph("apt &amp; dpkg", style("Kreis")),
                paragraph("Direct", '<outlineLvl val="0"/>'),
                paragraph("Text", '<outlineLvl val="9"/>'),
                paragraph("No level", '<outlineLvl val="x"/>'),
                paragraph("No item", item(2, -3)),
            ],
            [
                (("The title", "Install", "On Linux"), "apt & dpkg"),
                (("The title", "Direct"), "Text"),
                (("The title", "Direct"), "No level"),
                (("The title", "Direct"), "1. No item"),
            ],
        ),
        (
            [
                paragraph("one", item(2)),
                paragraph("inner", item(2, 1)),
                paragraph("two", item(2)),
                paragraph("between"),
                paragraph("three", item(2)),
                paragraph("bullet", item(1)),
            ],
            [
                ((), "1. one\n   1. inner\n2. two"),
                ((), "between"),
                ((), "3. three"),
                ((), "- bullet"),
            ],
        ),
        (
            [
                '<tbl><tblPr><tblLook firstRow="1"/></tblPr>',
                row("Name", "Price"),
                row("gone", "gone", properties="<del/>"),
                f"<sdt><sdtContent>{row('Pen', '3')}</sdtContent></sdt></tbl>",
            ],
            [((), "Name | Price\nPen | 3")],
        ),
        (
            [
                (
                    "<p><del><r><delText>old</delText><t>old</t></r></del><ins><r><t>new</t></r></ins>"
                    "<r><rPr><vanish/></rPr><t>hidden</t></r><r><tab/><t>te</t></r>"
                    '<hyperlink><r><t>xt</t></r></hyperlink><r><footnoteReference id="2"/></r>'
                    "<r><instrText>PAGE</instrText></r></p>"
                )
            ],
            [((), "new text [1]"), ((), "[1] See there.")],
        ),
        (
            [
                (
                    "<p><r><t>before</t><AlternateContent><Choice><txbxContent>"
                    f"{paragraph('boxed')}</txbxContent></Choice><Fallback><txbxContent>"
                    f"{paragraph('boxed')}</txbxContent></Fallback></AlternateContent></r></p>"
                ),
                f"<sdt><sdtContent>{paragraph('controlled')}</sdtContent></sdt>",
                "<p><oMath><f><num><r><t>a</t></r></num><den><r><t>b</t></r></den></f></oMath></p>",
            ],
            [((), "before"), ((), "boxed"), ((), "controlled"), ((), "a/b")],
        ),
    ],
)
def test_docx_is_what_word_shows(body, blocks):
    """Headings by style in any language, lists, tables, final text, notes, boxes, formulas."""
    found = read(".docx", document(*body))
    assert [(block.headings, block.text) for block in found.blocks] == blocks


def test_a_file_that_word_inserts_into_docx_is_named():
    """The rest is read."""
    document_with_html = read(".docx", document(paragraph("x"), '<altChunk id="rId1"/>'))
    assert [block.text for block in document_with_html.blocks] == ["x"]
    assert "inserted files" in document_with_html.problems[0]


def test_a_title_of_docx_is_its_first_paragraph_of_that_style_or_its_property():
    """The property often is that of a template."""
    assert (
        read(".docx", document(paragraph("R&amp;D", style("Titel")), "<p/>", paragraph("x"))).title
        == "R&D"
    )


@pytest.mark.parametrize(
    ("suffix", "data", "blocks"),
    [
        (
            ".pptx",
            lambda: pptx(
                slide(
                    shape("7", placeholder="sldNum"),
                    shape("Fruits", "Apples", placeholder="body"),
                    f"<grpSp><grpSp>{shape('deep')}</grpSp></grpSp>",
                    "<graphicFrame><graphic><graphicData><tbl><tblPr firstRow='1'/>"
                    "<tr><tc><txBody><p><r><t>Name</t></r></p></txBody></tc>"
                    "<tc><txBody><p><r><t>Price</t></r></p></txBody></tc></tr>"
                    "<tr><tc><txBody><p><r><t>Pen</t></r></p></txBody></tc>"
                    "<tc><txBody><p><r><t>3</t></r></p></txBody></tc></tr></tbl>"
                    "</graphicData></graphic></graphicFrame>",
                    shape("First", placeholder="title"),
                ),
                slide(shape("no"), attributes='show="0"'),
                slide(shape("last")),
                notesSlide=slide(shape("spoken", placeholder="body")),
                diagramData="<x><ptLst><pt><t><p><r><t>circle</t></r></p></t></pt></ptLst></x>",
            ),
            [
                (("First",), "- Fruits\n- Apples", {"page": 1}),
                (("First",), "deep", {"page": 1}),
                (("First",), "Name | Price\nPen | 3", {"page": 1}),
                (("First",), "circle", {"page": 1}),
                (("First",), "Notes: spoken", {"page": 1}),
                ((), "last", {"page": 3}),
            ],
        ),
        (
            ".xlsx",
            workbook,
            [
                (("Prices",), "Prices of 2024", {}),
                (
                    ("Prices",),
                    "name: Pen\nprice: 0.3\nsince: 2024-05-01\nyear: 2024",
                    {"year": 2024},
                ),
                (("Prices",), "name: Ink\nprice: 3\nsince: 2024-05-01 10:30:00\ncode: true", {}),
            ],
        ),
        (
            ".epub",
            lambda: epub(
                "<h1>One</h1><p>first</p>",
                "<p>second</p>",
                "<p>third</p>",
                package='<item id="n" href="toc.ncx" media-type="application/x-dtbncx+xml"/>',
                **{
                    "OPS/toc.ncx": "<!DOCTYPE ncx><ncx><navMap><navPoint><navLabel><text>Three"
                    '</text></navLabel><content src="3.xhtml#a"/></navPoint></navMap></ncx>'
                },
            ),
            [
                (("Book", "One"), "first", {}),
                (("Book", "One"), "second", {}),
                (("Book", "Three"), "third", {}),
            ],
        ),
        (
            ".ipynb",
            lambda: json.dumps(
                {
                    "metadata": {"language_info": {"name": "julia"}},
                    "cells": [
                        {"cell_type": "markdown", "source": ["# Head\n", "\n", "*text* ```open"]},
                        {
                            "cell_type": "code",
                            "source": 'a = """\n```\n"""',
                            "outputs": [{"output_type": "stream", "text": "long"}],
                        },
                    ],
                }
            ),
            [
                (("Head",), "text ```open", {}),
                (("Head",), '````julia\na = """\n```\n"""\n````', {}),
            ],
        ),
        (
            ".rst",
            """Head
====

.. toctree::
   other

See :ref:`the page <other>`, :py:func:`~os.walk`.

.. function:: walk(top)
   :module: os

   Walks.

   .. versionadded:: 2.3

.. code-block:: python
   :caption: x

   walk()

.. include:: /etc/passwd

.. raw:: html

   <b>raw</b>

=== ==
bro ken
= ==
""",
            [
                (("Head",), "See the page, os.walk.", {}),
                (("Head",), "walk(top)", {}),
                (("Head",), "Walks.", {}),
                (("Head",), "Added in version 2.3", {}),
                (("Head",), "```python\nwalk()\n```", {}),
                (("Head",), "=== ==\nbro ken\n= ==", {}),
            ],
        ),
        (
            ".json",
            (
                '{"title": "Shop", "open": true, "at": {"town": "Ulm", "no": [1, null]},'
                ' "goods": [{"name": "Pen", "year": 2024, "sold": 0}, {"text": "Ink"}]}'
            ),
            [
                (("Shop",), "title: Shop\nopen: true", {}),
                (("Shop", "at"), "town: Ulm\nno: 1", {}),
                (("Shop", "goods"), "name: Pen\nyear: 2024\nsold: 0", {"year": 2024}),
                (("Shop", "goods"), "Ink", {}),
            ],
        ),
        (
            ".eml",
            (
                "From: Ada\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nMIME-Version: 1.0\r\n"
                'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\n'
                "Content-Type: text/html\r\n\r\n<p>Hello<br>there</p>\r\n--b\r\n"
                'Content-Type: text/csv\r\nContent-Disposition: attachment; filename="t"\r\n\r\n'
                "1\r\n--b--\r\n"
            ),
            [(("Grüße",), "From: Ada", {}), (("Grüße",), "Hello\nthere", {})],
        ),
    ],
)
def test_a_format_has_its_text_under_its_headings(suffix, data, blocks):
    """In the order of the document, with what belongs to a part as metadata."""
    found = read(suffix, data() if callable(data) else data, wanted=("year",))
    assert [(block.headings, block.text, dict(block.metadata)) for block in found.blocks] == blocks


def test_what_is_left_out_of_a_document_is_named():
    """Sheets and slides that are hidden, values without a calculation, attachments, chapters."""
    hidden = pptx(slide(shape("no"), attributes='show="0"'), slide(shape("x")))
    mail = (
        'Subject: x\nContent-Type: multipart/mixed; boundary="b"\n\n--b\n\ntext\n--b\n'
        'Content-Type: text/csv\nContent-Disposition: attachment; filename="t.csv"\n\n1\n--b--'
    )
    missing = epub("<p>x</p>", package='<item id="g" href="gone"/>', spine='<itemref idref="g"/>')
    assert read(".pptx", hidden).problems == ("slide 1 is hidden",)
    assert read(".eml", mail).problems == ("its attachment t.csv is not read",)
    assert read(".epub", missing).problems == ("its chapter OPS/gone is missing",)
    assert read(".xlsx", workbook()).problems == (
        "sheet 'Secret' is hidden",
        "formulas without values are not read: open it in a spreadsheet program and save it",
    )
