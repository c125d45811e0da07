"""PPTX to HTML, and that to blocks: each slide is a page, with its notes."""

from collections.abc import Collection, Iterator
from html import escape
from xml.etree.ElementTree import Element

from jobs.documents.bounded.parts import in_order
from jobs.documents.bounded.zip_package import ZipPackage, children, local, value
from jobs.documents.document import Block, Document, Outline
from jobs.documents.html import read_html

_TITLES = {"title", "ctrTitle"}
#: Placeholders that repeat on each slide.
_REPEATED = {"dt", "ftr", "hdr", "sldImg", "sldNum"}
_LISTS = {"body", "obj"}


def read(data: bytes, _content_type: str, _wanted: Collection[str]) -> Document:
    """Read the slides in their order. A title is a heading; hidden slides are left out."""
    package = ZipPackage(data)
    name, root = package.main_part("PPTX")
    parts = package.related(name, "slide")
    slides: list[tuple[list[Block], dict[str, int]]] = []
    hidden: list[int] = []
    title = package.title()
    for number, item in enumerate(children(root, "sldIdLst", "sldId"), 1):
        # Of the two attributes `id`, that of the relationship is the second.
        part = parts.get([text for key, text in item.items() if local(key) == "id"][-1])
        slide = package.xml(part) if part else None
        if part is None or slide is None:
            continue
        if slide.get("show") in {"0", "false"}:
            hidden.append(number)
            continue
        html = "".join(_slide(slide)) + "".join(_others(package, part))
        outline = Outline()
        read_html(html, outline)
        outline.end_section()
        title = title or outline.title
        slides.append((outline.blocks, {"page": number}))
    problems = tuple(f"slide {number} is hidden" for number in hidden)
    return Document(title, {}, list(in_order(slides)), problems)


def _slide(slide: Element) -> Iterator[str]:
    shapes = [shape for tree in children(slide, "cSld", "spTree") for shape in _shapes(tree)]
    # A title may be above or below the rest.
    shapes.sort(key=lambda shape: _placeholder(shape) not in _TITLES)
    for shape in shapes:
        placeholder = _placeholder(shape)
        if placeholder in _TITLES:
            yield f"<h1>{' '.join(_paragraphs(shape))}</h1>"
        elif local(shape.tag) == "graphicFrame":
            for table in children(shape, "graphic", "graphicData", "tbl"):
                yield from _table(table)
        elif placeholder in _LISTS:
            yield "".join(_list(shape))
        elif placeholder not in _REPEATED:
            yield "".join(f"<p>{text}</p>" for text in _paragraphs(shape))


def _shapes(tree: Element) -> Iterator[Element]:
    for shape in tree:
        if local(shape.tag) in {"grpSp", "AlternateContent", "Choice"}:
            yield from _shapes(shape)
        elif local(shape.tag) in {"sp", "cxnSp", "pic", "graphicFrame"}:
            yield shape


def _placeholder(shape: Element) -> str:
    """Return the type of a placeholder, which is `obj` without one; empty for other shapes."""
    return next((item.get("type", "obj") for item in children(shape, "nvSpPr", "nvPr", "ph")), "")


def _paragraphs(shape: Element) -> Iterator[str]:
    for paragraph in children(shape, "txBody", "p"):
        text = _text(paragraph)
        if text.strip():
            yield text


def _list(shape: Element) -> Iterator[str]:
    depth = 0
    for paragraph in children(shape, "txBody", "p"):
        text = _text(paragraph)
        if text.strip():
            level = min(9, int(value(paragraph, "pPr", of="lvl") or 0) + 1)
            yield "<ul>" * (level - depth) + "</ul>" * (depth - level) + f"<li>{text}"
            depth = level
    yield "</ul>" * depth


def _text(paragraph: Element) -> str:
    parts = []
    for run in paragraph.iter():
        if local(run.tag) == "t":
            parts.append(escape(run.text or ""))
        elif local(run.tag) == "br":
            parts.append("<br>")
    return "".join(parts)


def _table(table: Element) -> Iterator[str]:
    has_header = value(table, "tblPr", of="firstRow") in {"1", "true"}
    yield "<table>"
    for number, row in enumerate(children(table, "tr")):
        tag = "th" if has_header and number == 0 else "td"
        cells = (" ".join(_paragraphs(cell)) for cell in children(row, "tc"))
        yield "<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>"
    yield "</table>"


def _others(package: ZipPackage, part: str) -> Iterator[str]:
    """Yield the texts of diagrams, and the speaker's notes."""
    for diagram in package.related(part, "diagramData").values():
        for point in children(package.xml(diagram), "ptLst", "pt", "t"):
            text = "<br>".join(filter(str.strip, map(_text, children(point, "p"))))
            yield f"<p>{text}</p>"
    for notes in package.related(part, "notesSlide").values():
        for tree in children(package.xml(notes), "cSld", "spTree"):
            for shape in _shapes(tree):
                if _placeholder(shape) == "body" and (text := "<br>".join(_paragraphs(shape))):
                    yield f"<p>Notes: {text}</p>"
