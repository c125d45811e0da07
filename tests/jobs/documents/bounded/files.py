"""Files of each format, written part by part."""

import io
import zipfile
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


def zipped(parts: dict[str, str | bytes]) -> bytes:
    """Return a ZIP file."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def relationships(**targets: str) -> str:
    """Return relationships of parts of Office Open XML: types by their ids and targets."""
    items = "".join(
        f'<Relationship Id="{name}" Type="http://x/{target.split(" ")[0]}"'
        f' Target="{target.split(" ")[1]}"/>'
        for name, target in targets.items()
    )
    return f"<Relationships>{items}</Relationships>"


def docx(body: str, doctype: str = "", **parts: str) -> bytes:
    """Return a DOCX; `parts` are the contents of others, such as of styles, by their names."""
    names = {name: f"{name} {name}.xml" for name in parts}
    return zipped(
        {
            "_rels/.rels": relationships(main="officeDocument word/document.xml"),
            "word/document.xml": f"{doctype}<document><body>{body}</body></document>",
            "word/_rels/document.xml.rels": relationships(**names),
            **{f"word/{name}.xml": content for name, content in parts.items()},
        }
    )


def paragraph(text: str, properties: str = "") -> str:
    """Return a paragraph of DOCX."""
    return f"<p><pPr>{properties}</pPr><r><t>{text}</t></r></p>"


def slide(*shapes: str, attributes: str = "") -> str:
    """Return a slide or notes of PPTX."""
    return f"<sld {attributes}><cSld><spTree>{''.join(shapes)}</spTree></cSld></sld>"


def shape(*texts: str, placeholder: str = "") -> str:
    """Return a shape of a slide, each of whose texts is a paragraph."""
    paragraphs = "".join(f"<p><r><t>{text}</t></r></p>" for text in texts)
    name = f'<nvSpPr><nvPr><ph type="{placeholder}"/></nvPr></nvSpPr>' if placeholder else ""
    return f"<sp>{name}<txBody>{paragraphs}</txBody></sp>"


def pptx(*slides: str, **parts: str) -> bytes:
    """Return a PPTX; `parts` are those that the first slide refers to."""
    numbers = range(1, len(slides) + 1)
    ids = "".join(f'<sldId id="25{n}" r:id="s{n}"/>' for n in numbers)
    names = {name: f"{name} {name}.xml" for name in parts}
    return zipped(
        {
            "_rels/.rels": relationships(main="officeDocument ppt/presentation.xml"),
            "ppt/presentation.xml": "<presentation xmlns:r='r'><sldIdLst>"
            f"{ids}</sldIdLst></presentation>",
            "ppt/_rels/presentation.xml.rels": relationships(
                **{f"s{n}": f"slide slides/{n}.xml" for n in numbers}
            ),
            "ppt/slides/_rels/1.xml.rels": relationships(**names),
            **{f"ppt/slides/{n}.xml": content for n, content in enumerate(slides, 1)},
            **{f"ppt/slides/{name}.xml": content for name, content in parts.items()},
        }
    )


def xlsx(*sheets: str, strings: str = "") -> bytes:
    """Return an XLSX with the rows of each sheet in XML."""
    numbers = range(1, len(sheets) + 1)
    items = "".join(f'<sheet name="Part {n}x" sheetId="{n}" r:id="s{n}"/>' for n in numbers)
    content_type = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    override = '<Override PartName="/xl/{}.xml" ContentType="' + content_type + '.{}+xml"/>'
    types = override.format("workbook", "sheet.main") + override.format("strings", "sharedStrings")
    types += "".join(override.format(f"{n}", "worksheet") for n in numbers)
    office = "http://schemas.openxmlformats.org"
    main = f'xmlns="{office}/spreadsheetml/2006/main"'
    kind = f"{office}/officeDocument/2006/relationships"
    links = "".join(
        f'<Relationship Id="s{n}" Type="{kind}/worksheet" Target="{n}.xml"/>' for n in numbers
    )
    links += f'<Relationship Id="t" Type="{kind}/sharedStrings" Target="strings.xml"/>'
    package = f'xmlns="{office}/package/2006'
    return zipped(
        {
            "[Content_Types].xml": f'<Types {package}/content-types">{types}</Types>',
            "_rels/.rels": f'<Relationships {package}/relationships"><Relationship Id="m"'
            f' Type="{kind}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
            "xl/workbook.xml": f'<workbook {main} xmlns:r="{kind}"><sheets>{items}'
            "</sheets></workbook>",
            "xl/_rels/workbook.xml.rels": f'<Relationships {package}/relationships">{links}'
            "</Relationships>",
            "xl/strings.xml": f"{strings}<sst {main}/>" if "<sst" not in strings else strings,
            **{
                f"xl/{n}.xml": f"<worksheet {main}>{sheet}</worksheet>"
                for n, sheet in enumerate(sheets, 1)
            },
        }
    )


def epub(*chapters: str, package: str = "", spine: str = "", **parts: str) -> bytes:
    """Return an EPUB; `package` and `spine` are further items of its manifest and spine."""
    names = [f"{n}.xhtml" for n in range(1, len(chapters) + 1)]
    items = "".join(f'<item id="c{name}" href="{name}"/>' for name in names)
    spine += "".join(f'<itemref idref="c{name}"/>' for name in names)
    return zipped(
        {
            "META-INF/container.xml": "<container><rootfiles>"
            '<rootfile full-path="OPS/book.opf"/></rootfiles></container>',
            "OPS/book.opf": "<package><metadata><title>Book</title></metadata>"
            f"<manifest>{items}{package}</manifest><spine>{spine}</spine></package>",
            **{f"OPS/{name}": text for name, text in zip(names, chapters, strict=True)},
            **parts,
        }
    )
