"""DOCX to HTML, and that to blocks: the text that a reader of the final version sees."""

import re
from collections import Counter
from collections.abc import Collection, Iterator
from html import escape, unescape
from typing import NamedTuple
from xml.etree.ElementTree import Element

from jobs.documents.bounded.zip_package import ZipPackage, children, local, value
from jobs.documents.document import Document, Outline, RefusedDocumentError
from jobs.documents.html import read_html

#: Deleted text, a second form of a drawing, how ruby is read, and properties.
_HIDDEN = {"del", "moveFrom", "Fallback", "rt", "sdtPr", "sectPr"}
_CHARACTERS = {"tab": " ", "br": "<br>", "cr": "<br>", "noBreakHyphen": "-"}
#: Signs of a formula in a line.
_SIGNS = {"den": "/", "sub": "_", "sup": "^"}
_NO = {"0", "false", "off"}
_HEADING = re.compile("heading ([1-9])", re.IGNORECASE)
#: The built-in styles of tables of contents, of figures and of authorities.
_CONTENTS = re.compile(r"toc \d|table of \w+", re.IGNORECASE)
_BULLETS = {"bullet", "none"}
_FOREIGN = "it has inserted files (altChunk), which Word reads when it opens and saves it"
#: Levels of headings; the next one is text.
_LEVELS = 9


class _Style(NamedTuple):
    #: Its name in English, whatever Word's language is.
    name: str
    #: The level of its headings, from 1; 0 for text.
    level: int
    #: The list of its paragraphs.
    list_id: str | None


_TEXT = _Style("", 0, None)


def read(data: bytes, _content_type: str, _wanted: Collection[str]) -> Document:
    """Read headings, lists, tables, notes and text boxes. Headers and footers are no text."""
    package = ZipPackage(data)
    name, root = package.main_part("DOCX")
    writer = _HtmlWriter(package, name)
    html = "".join(block for body in children(root, "body") for block in writer.blocks(body))
    outline = Outline()
    read_html(html, outline)
    outline.end_section()
    problems = (_FOREIGN,) if writer.has_foreign_parts else ()
    if problems and not outline.blocks:
        raise RefusedDocumentError(_FOREIGN)
    return Document(writer.title or package.title(), {}, outline.blocks, problems)


class _HtmlWriter:
    def __init__(self, package: ZipPackage, name: str) -> None:
        #: The text of its first paragraph in the style "Title".
        self.title = ""
        #: Whether it has HTML or other files, which Word inserts when it opens it.
        self.has_foreign_parts = False
        self._styles = _styles(package, name)
        self._bullets = _bullets(package, name)
        #: The last number of each level of a list.
        self._numbers = Counter[tuple[str, int]]()
        self._notes = {
            (kind, value(note, of="id")): note
            for kind in ("footnote", "endnote")
            for part in package.related(name, f"{kind}s").values()
            for note in children(package.xml(part), kind)
        }
        self._note_count = 0
        #: Notes and text boxes, which follow the paragraph that they are in.
        self._following: list[str] = []

    def blocks(self, parent: Element) -> Iterator[str]:
        """Yield the paragraphs, items of lists, and tables of an element."""
        lists: list[str] = []
        for element in parent:
            tag, level, html = local(element.tag), 0, ""
            if tag == "p":
                level, html = self._paragraph(element)
            elif tag == "tbl":
                html = self._table(element)
            elif tag == "altChunk":
                self.has_foreign_parts = True
            elif tag not in _HIDDEN and not _is_contents(element):
                html = "".join(self.blocks(element))
            following, self._following = self._following, []
            if html:
                yield _begin(lists, level, "ol" if html.startswith("<li value") else "ul") + html
            yield "".join(following)
        yield _begin(lists, 0)

    def _paragraph(self, element: Element) -> tuple[int, str]:
        """Return the level of a list's item, 0 for other paragraphs, and its HTML."""
        html = "".join(self._inline(element))
        style = self._styles.get(value(element, "pPr", "pStyle") or "", _TEXT)
        if not html.strip() or _CONTENTS.fullmatch(style.name):
            return 0, ""
        if style.name.lower() == "title" and not self.title:
            self.title = unescape(" ".join(html.replace("<br>", " ").split()))
            return 0, ""
        own_level = _number(value(element, "pPr", "outlineLvl"))
        heading = style.level if own_level is None else own_level + 1
        heading = min(6, heading) if heading <= _LEVELS else 0
        if heading > 0:
            return 0, f"<h{heading}>{html}</h{heading}>"
        list_id = value(element, "pPr", "numPr", "numId") or style.list_id
        if not list_id or list_id == "0":
            return 0, f"<p>{html}</p>"
        level = min(8, _number(value(element, "pPr", "numPr", "ilvl")) or 0)
        if (list_id, level) in self._bullets:
            return level + 1, f"<li><p>{html}</p>"
        self._numbers[list_id, level] += 1
        for deeper in range(level + 1, 9):
            self._numbers[list_id, deeper] = 0
        return level + 1, f"<li value={self._numbers[list_id, level]}><p>{html}</p>"

    def _inline(self, element: Element) -> Iterator[str]:
        for child in element:
            tag = local(child.tag)
            if tag == "t":
                yield escape(child.text or "")
            elif tag in _CHARACTERS:
                yield _CHARACTERS[tag]
            elif tag in {"footnoteReference", "endnoteReference"}:
                yield self._note(tag.removesuffix("Reference"), child)
            elif tag == "txbxContent":
                html = "".join(self.blocks(child))
                self._following.append(html)
            elif tag not in _HIDDEN and not (tag == "r" and _is_set(child, "rPr", "vanish")):
                yield _SIGNS.get(tag, "")
                yield from self._inline(child)

    def _note(self, kind: str, reference: Element) -> str:
        note = self._notes.pop((kind, value(reference, of="id")), None)
        if note is None:
            return ""
        self._note_count += 1
        paragraphs = "<br>".join("".join(self._inline(item)) for item in children(note, "p"))
        self._following.append(f"<p>[{self._note_count}] {paragraphs}</p>")
        return f" [{self._note_count}]"

    def _table(self, element: Element) -> str:
        rows = [row for row in _rows(element) if next(children(row, "trPr", "del"), None) is None]
        has_header = value(element, "tblPr", "tblLook", of="firstRow") in {"1", "true", "on"}
        html = []
        for number, row in enumerate(rows):
            is_header = (has_header and number == 0) or _is_set(row, "trPr", "tblHeader")
            tag = "th" if is_header and len(rows) > 1 else "td"
            cells = ("".join(self.blocks(cell)) for cell in _cells(row))
            html.append("<tr>" + "".join(f"<{tag}>{cell}</{tag}>" for cell in cells) + "</tr>")
        return f"<table>{''.join(html)}</table>"


def _begin(lists: list[str], level: int, tag: str = "") -> str:
    """End the lists that are open below a level, and begin those up to it."""
    html = ""
    while len(lists) > level or (lists and len(lists) == level and lists[-1] != tag):
        html += f"</li></{lists.pop()}>"
    if lists and len(lists) == level:
        html += "</li>"
    while len(lists) < level:
        html += f"<{tag}>"
        lists.append(tag)
    return html


def _rows(element: Element) -> Iterator[Element]:
    for child in element:
        if local(child.tag) == "tr":
            yield child
        elif local(child.tag) in {"sdt", "sdtContent", "customXml", "ins"}:
            yield from _rows(child)


def _cells(row: Element) -> Iterator[Element]:
    for child in row:
        if local(child.tag) == "tc":
            yield child
        elif local(child.tag) in {"sdt", "sdtContent", "customXml"}:
            yield from _cells(child)


def _is_contents(element: Element) -> bool:
    gallery = value(element, "sdtPr", "docPartObj", "docPartGallery")
    return gallery == "Table of Contents"


def _is_set(element: Element, *path: str) -> bool:
    """Return whether an element has a property that is on, which it is without a value."""
    return any((value(item) or "on") not in _NO for item in children(element, *path))


def _styles(package: ZipPackage, name: str) -> dict[str, _Style]:
    """Return the styles by their ids, which Word writes in its own language."""
    elements = {
        value(style, of="styleId") or "": style
        for part in package.related(name, "styles").values()
        for style in children(package.xml(part), "style")
    }
    styles = {}
    for style_id, element in elements.items():
        lineage: dict[str, Element] = {}
        ancestor: str | None = style_id
        while ancestor in elements and ancestor not in lineage:
            lineage[ancestor] = elements[ancestor]
            ancestor = value(elements[ancestor], "basedOn")
        levels = [level + 1 for item in lineage.values() if (level := _level(item)) is not None]
        lists = [value(item, "pPr", "numPr", "numId") for item in lineage.values()]
        styles[style_id] = _Style(
            value(element, "name") or "",
            levels[0] if levels and levels[0] <= _LEVELS else 0,
            next(filter(None, lists), None),
        )
    return styles


def _number(text: str | None) -> int | None:
    """Return a number from 0 on; None for another text."""
    return int(text) if text and text.isdecimal() and len(text) < 9 else None


def _level(style: Element) -> int | None:
    """Return the level of a style's headings, from 0; 9 for text."""
    level = _number(value(style, "pPr", "outlineLvl"))
    heading = _HEADING.fullmatch(value(style, "name") or "")
    return int(heading[1]) - 1 if heading and level is None else level


def _bullets(package: ZipPackage, name: str) -> set[tuple[str, int]]:
    """Return the levels of lists without numbers, by the list's id."""
    bullets = set()
    for part in package.related(name, "numbering").values():
        root = package.xml(part)
        without_numbers = {
            (value(definition, of="abstractNumId"), _number(value(level, of="ilvl")) or 0)
            for definition in children(root, "abstractNum")
            for level in children(definition, "lvl")
            if value(level, "numFmt") in _BULLETS
        }
        for item in children(root, "num"):
            definition_id = value(item, "abstractNumId")
            list_id = value(item, of="numId") or ""
            bullets |= {
                (list_id, level) for bullet, level in without_numbers if bullet == definition_id
            }
    return bullets
