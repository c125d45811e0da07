"""HTML to blocks: the text that a browser would show, without navigation."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from jobs.documents.document import Outline, RefusedDocumentError
from jobs.documents.text import read_text

#: XHTML, as chapters of EPUB are; and its elements without content, whose `/` HTML ignores.
_XHTML = re.compile(r"<\?xml\s|<!DOCTYPE[^>]*XHTML|<html[^>]*\sxmlns=", re.IGNORECASE)
_EMPTY = re.compile(
    r"<(?!(?:area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr)[\s/])"
    r"([a-zA-Z][\w:.-]*)((?:\s+[^\s<>=/]+\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)\s*/>"
)
#: Elements that a browser begins on a new line. All others are within a line.
_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|caption|center|dd|details|dialog|dir|div|dl|dt|fieldset|"
    "figcaption|figure|footer|form|h[1-6]|header|hgroup|hr|html|legend|li|listing|main|menu|ol|p|"
    "plaintext|pre|search|section|summary|table|tbody|td|tfoot|th|thead|tr|ul|xmp"
)
#: Elements that are not shown, or are no text: navigation, choices, drawings, what is shown in
#: place of media, and a second notation of formulas and of ruby.
_HIDDEN = re.compile(
    "annotation|annotation-xml|audio|canvas|datalist|iframe|nav|noembed|noframes|noscript|rp|"
    "script|select|style|svg|template|video"
)
_HIDDEN_ROLES = {"doc-toc", "navigation"}
#: Classes and ids of navigation, in DocBook, Asciidoctor and Bootstrap; and of the numbers of code
#: lines, in Pygments and Doxygen.
_HIDDEN_CLASS = re.compile(
    r"(?:^|\s)(?:breadcrumbs?|nav|nav-panel|navbar|navfooter|navheader|navigation|toc|"
    r"lineno|linenodiv|linenos)(?=\s|$)",
    re.IGNORECASE,
)
#: Texinfo's links to the pages around, in a `header` that other programs have for a title.
_AROUND_PAGE = "p > a[rel=next], p > a[rel=prev], p > a[rel=up]"
#: A page that only leads to another one, at once.
_REDIRECT = re.compile(r"\s*[0-5]\s*[;,]\s*url\s*=", re.IGNORECASE)
_HIDDEN_STYLE = re.compile(
    r"(?:^|[;\s])(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE
)
#: The text of a link from a heading to itself, or from a footnote back to its text; and a word for
#: it, in a link with a class for it.
_PERMALINK = re.compile(r"\s*[¶#§🔗⚓∞↩↑\uf0c1][\ufe0e\ufe0f\s]*")
_PERMALINK_WORDS = re.compile(r"\s*(?:(?:perma)?link(?: to this \w+)?|anchor)\s*", re.IGNORECASE)
_PERMALINK_CLASS = re.compile(r"anchor|permalink|(?:hash|header)-?link", re.IGNORECASE)
#: An exponent.
_EXPONENT = re.compile(r"[-+−]?\d+")
_FILE_NAME = re.compile(r"\S+\.(?:avif|gif|jpe?g|png|svg|webp)", re.IGNORECASE)
_HEADING = re.compile("h[1-6]")
_LISTS = {"dir", "dl", "menu", "ol", "ul"}
_PREFORMATTED = {"listing", "plaintext", "pre", "xmp"}
_INDENTS = {"blockquote": "> ", "dd": "  ", "dt": ""}
#: What is shown before and after an element.
_AROUND = {"button": (" ", " "), "q": ("“", "”"), "rt": ("(", ")")}
#: The classes of code, with its language.
_CODE = re.compile(
    r"(?:^|\s)(?:(?:lang|language|highlight|highlight-source)-([\w+#.-]+)|sourceCode (\w+)"
    r"|code|fragment|highlight|programlisting|screen|sourceCode)(?=\s|$)"
)
_NO_LANGUAGE = {"default", "none", "plain", "plaintext", "text"}
_BACKTICKS = re.compile("`{3,}")
_BLANK_LINES = re.compile(r"\n\s*\n")
_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"\w")
#: The characters in which a page says that it is XHTML.
_BEGIN = 1024
#: The most characters of a row that is one line.
_MAX_ROW = 1000
#: The innermost lists and quotations that indent a line.
_MAX_INDENTS = 8
#: The fewest links to parts of the page that are a table of contents.
_LEAST_CONTENTS = 3


def read_html(text: str, outline: Outline) -> None:
    """Add the title and the blocks of HTML to an outline."""
    if _XHTML.search(text, 0, _BEGIN):
        text = _EMPTY.sub(r"<\1\2></\1>", text)
    reader = _Reader(outline)
    try:
        root = LexborHTMLParser(text).root
    except SelectolaxError as error:  # no page is invalid for it
        raise MemoryError from error
    if root is not None:
        for node in root.css("meta[http-equiv=refresh i]"):
            if _REDIRECT.match(node.attributes.get("content") or ""):
                raise RefusedDocumentError("it only leads to another page")
        _walk(root, reader.enter, reader.leave)


def _walk(
    root: LexborNode,
    enter: Callable[[LexborNode, str], bool],
    leave: Callable[[LexborNode, str], None],
) -> None:
    """Enter all nodes, and leave those that were entered, which may be deeper than a stack."""
    open_nodes: list[LexborNode] = []
    node: LexborNode | None = root
    while node is not None:
        if enter(node, node.tag or ""):
            open_nodes.append(node)
            following = node.child
        else:
            following = node.next if open_nodes else None
        while following is None and open_nodes:
            ended = open_nodes.pop()
            leave(ended, ended.tag or "")
            following = ended.next if open_nodes else None
        node = following


def _is_hidden(node: LexborNode, tag: str) -> bool:
    if _HIDDEN.fullmatch(tag):
        return True
    attributes = node.attributes
    if not attributes:
        return False
    names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
    if tag == "a" and "#" in (attributes.get("href") or ""):
        text = node.text()
        if _PERMALINK.fullmatch(text):
            return True
        if _PERMALINK_WORDS.fullmatch(text) and _PERMALINK_CLASS.search(names):
            return True
    return (
        attributes.get("hidden", "until-found") != "until-found"
        or attributes.get("aria-hidden") == "true"
        or not _HIDDEN_ROLES.isdisjoint((attributes.get("role") or "").split())
        or bool(_HIDDEN_CLASS.search(names))
        or bool(_HIDDEN_STYLE.search(attributes.get("style") or ""))
        or (attributes.get("class") == "header" and node.css_first(_AROUND_PAGE) is not None)
    )


def _is_preformatted(node: LexborNode, tag: str) -> bool:
    """Return whether lines are kept; those of Doxygen are elements."""
    if tag in _PREFORMATTED:
        return True
    line = node.child if tag == "div" and node.attributes.get("class") == "fragment" else None
    return line is not None and line.attributes.get("class") == "line"


def _is_link_in_page(node: LexborNode, tag: str) -> bool:
    return tag == "a" and (node.attributes.get("href") or "").startswith("#")


class _Indent:
    """The begin of the lines of a list's item or of a quotation."""

    def __init__(self, marker: str, rest: str) -> None:
        self._marker, self.rest = marker, rest
        self.is_new = True

    def take(self) -> str:
        """Return the begin of a paragraph, of which the first one has the marker."""
        begin = self._marker if self.is_new else self.rest
        self.is_new = False
        return begin


class _Entry(NamedTuple):
    """A paragraph of a list."""

    text: str
    #: Whether it is the first one of its item.
    is_first: bool
    #: Its links to other parts of the page, if it has no other text.
    links: int


@dataclass
class _Table:
    """Rows of a table that are in no block yet, and the open row."""

    #: The indents and the lists around it.
    indents: int = 0
    lists: int = 0
    header: list[str] = field(default_factory=list)
    is_header_shown: bool = False
    rows: list[str] = field(default_factory=list)
    in_head: bool = False
    #: The lines of the open row's cells.
    cells: list[list[str]] = field(default_factory=list)
    has_data: bool = False
    #: Whether the open text belongs to the last of the cells.
    in_cell: bool = False


class _Reader:
    """Collects blocks at the begin and the end of elements."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        #: The open paragraph or heading.
        self._words: list[str] = []
        #: Whether it has text besides links to other parts of the page, and how many those are.
        self._has_prose = False
        self._links = 0
        self._open_links = 0
        self._headings = 0
        #: The next number of each open list that has numbers; None for the others.
        self._numbers: list[int | None] = []
        self._indents: list[_Indent] = []
        #: The paragraphs of the outermost list that are in no block yet.
        self._entries: list[_Entry] = []
        #: The first one is the page, which has no cells.
        self._tables = [_Table()]

    def enter(self, node: LexborNode, tag: str) -> bool:
        """Begin an element, or add a text; return whether to read what is in it."""
        if tag == "-text":
            self._add(node.text_content or "")
            return False
        if tag.startswith(("-", "!")) or _is_hidden(node, tag):
            return False
        if tag == "title":
            self._outline.title = self._outline.title or " ".join(node.text().split())
            return False
        if not self._headings and _is_preformatted(node, tag):
            self._end_paragraph()
            self._add_preformatted(node)
            return False
        if tag == "br":
            self._words.append("\n")
        elif tag == "img":
            alternative = (node.attributes.get("alt") or "").strip()
            if alternative and not _FILE_NAME.fullmatch(alternative):
                self._add(f" {alternative} ")
        elif tag == "input" and node.attributes.get("type") == "checkbox" and self._indents:
            self._words.append("[x] " if "checked" in node.attributes else "[ ] ")
        elif tag in _AROUND:
            self._words.append(_AROUND[tag][0])
        elif tag == "sup" and (sign := _sign_of_superscript(node)):
            self._words.append(sign)
        elif _is_link_in_page(node, tag):
            self._open_links += 1
            self._links += 1
        elif _BLOCKS.fullmatch(tag):
            self._begin_block(node, tag)
        return True

    def leave(self, node: LexborNode, tag: str) -> None:
        """End an element."""
        if tag in _AROUND:
            self._words.append(_AROUND[tag][1])
        elif _is_link_in_page(node, tag):
            self._open_links -= 1
        elif _BLOCKS.fullmatch(tag):
            self._end_block(tag)

    def _add(self, text: str) -> None:
        self._words.append(_SPACES.sub(" ", text))
        if not self._open_links and not self._has_prose:
            self._has_prose = bool(_WORD.search(text))

    def _begin_block(self, node: LexborNode, tag: str) -> None:
        if not self._headings:
            self._end_paragraph()
        if _HEADING.fullmatch(tag):
            if not self._headings:
                self._interrupt()
            self._headings += 1
        if self._headings:
            self._words.append(" ")
            return
        table = self._tables[-1]
        if tag in _LISTS:
            self._numbers.append(_number(node, "start", 1) if tag == "ol" else None)
        elif tag == "li":
            number = self._numbers[-1] if self._numbers else None
            marker = "- "
            if number is not None:
                number = _number(node, "value", number)
                self._numbers[-1] = number + 1
                marker = f"{number}. "
            self._indents.append(_Indent(marker, " " * len(marker)))
        elif tag in _INDENTS:
            self._indents.append(_Indent(_INDENTS[tag], _INDENTS[tag]))
        elif tag == "table":
            self._interrupt()
            self._tables.append(_Table(len(self._indents), len(self._numbers)))
        elif tag == "thead":
            table.in_head = True
        elif tag in {"td", "th"}:
            table.cells.append([])
            table.in_cell = True
            table.has_data |= tag == "td"

    def _end_block(self, tag: str) -> None:
        if _HEADING.fullmatch(tag):
            self._headings -= 1
            if not self._headings:
                self._outline.begin(int(tag[1]), "".join(self._words))
                self._reset()
        if self._headings:
            self._words.append(" ")
            return
        self._end_paragraph()
        table = self._tables[-1]
        if tag in _LISTS:
            self._numbers.pop()
            if len(self._numbers) == table.lists:
                self._end_list()
        elif tag == "li" or tag in _INDENTS:
            self._indents.pop()
        elif tag == "table":
            self._end_rows(table)
            self._tables.pop()
        elif tag == "thead":
            table.in_head = False
        elif tag in {"td", "th"}:
            table.in_cell = False
        elif tag == "tr":
            self._end_row(table)

    def _end_paragraph(self) -> None:
        """Add the open text to its list or its cell, or as blocks."""
        text, links = "".join(self._words), 0 if self._has_prose else self._links
        self._reset()
        table = self._tables[-1]
        for paragraph in _BLANK_LINES.split(text.strip()):
            lines = [" ".join(line.split()) for line in paragraph.split("\n")]
            if not any(lines):
                continue
            indents = self._indents[table.indents :][-_MAX_INDENTS:]
            is_first = bool(indents) and indents[-1].is_new
            begin, rest = "".join(indent.take() for indent in indents), ""
            for indent in indents:
                rest += indent.rest
            lines = [begin + lines[0], *(rest + line for line in lines[1:])]
            if table.in_cell:
                table.cells[-1] += lines
            elif len(self._numbers) > table.lists:
                self._entries.append(_Entry("\n".join(lines), is_first, links))
            elif links < _LEAST_CONTENTS:
                self._outline.add("\n".join(lines))

    def _reset(self) -> None:
        self._words.clear()
        self._has_prose, self._links = False, 0

    def _end_list(self) -> None:
        """Add the paragraphs of a list as a block, but for the later ones of an item."""
        entries, self._entries = self._entries, []
        links = [entry.links for entry in entries]
        if all(links) and sum(links) >= _LEAST_CONTENTS:
            return
        lines: list[str] = []
        for entry in entries:
            if not entry.is_first:
                self._outline.add("\n".join(lines))
                lines.clear()
                self._outline.add(entry.text)
            else:
                lines.append(entry.text)
        self._outline.add("\n".join(lines))

    def _end_row(self, table: _Table) -> None:
        """Make the open row a line of the table, or blocks if it is too long for that."""
        cells = table.cells
        texts = [" ".join(" ".join(cell).split()) for cell in cells]
        is_head = table.in_head or not (table.has_data or table.rows)
        table.cells, table.has_data = [], False
        if sum(map(len, texts)) > _MAX_ROW:
            self._end_rows(table)
            for cell in cells:
                self._outline.add("\n".join(cell))
        elif any(texts):
            line = " | ".join(texts).strip() if len(cells) > 1 else "\n".join(cells[0])
            (table.header if is_head and not table.is_header_shown else table.rows).append(line)
        self._end_list()

    def _end_rows(self, table: _Table) -> None:
        """Add the rows that were read as a block."""
        if table.rows or (table.header and not table.is_header_shown):
            header = "\n".join(table.header)
            text = "\n".join([*table.header, *table.rows])
            self._outline.add(text, opening=header if table.rows else "")
            table.is_header_shown = True
        table.rows = []

    def _interrupt(self) -> None:
        """End list, table and row before a heading, code or a table in them."""
        self._end_list()
        table = self._tables[-1]
        if table.in_cell:
            self._end_rows(table)
            for cell in table.cells:
                self._outline.add("\n".join(cell))
            # What follows in the row is no part of a line.
            table.cells, table.in_cell = [], False

    def _add_preformatted(self, node: LexborNode) -> None:
        text = _preformatted(node)
        table = self._tables[-1]
        if table.in_cell and "\n" not in text:
            table.cells[-1] += [text.strip()] if text else []
            return
        self._interrupt()
        language = _language(node)
        if language is None:
            read_text(text, self._outline)
        elif text:
            longest = max(map(len, _BACKTICKS.findall(text)), default=2)
            fence = "`" * (longest + 1)
            opening = fence + language
            self._outline.add(f"{opening}\n{text}\n{fence}", opening=opening, closing=fence)


def _sign_of_superscript(node: LexborNode) -> str:
    """Return what divides an exponent from its base, or a note's number from its word."""
    if _EXPONENT.fullmatch(node.text(deep=False)):
        return "^"
    child = node.child
    if child is None or child.tag == "-text" or not _EXPONENT.fullmatch(child.text(deep=False)):
        return ""
    return " " if child.tag == "a" else "^"


def _number(node: LexborNode, name: str, default: int) -> int:
    text = node.attributes.get(name) or ""
    return int(text) if re.fullmatch(r"-?\d{1,9}", text) else default


def _preformatted(root: LexborNode) -> str:
    """Return the lines of preformatted text, without blank ones at the ends."""
    texts: list[str] = []

    def enter(node: LexborNode, tag: str) -> bool:
        if tag == "-text":
            texts.append((node.text_content or "").replace("\xa0", " "))
        elif tag == "br":
            texts.append("\n")
        elif tag.startswith("-") or tag == "button" or _is_hidden(node, tag):
            return False
        else:
            leave(node, tag)
            return True
        return False

    def leave(_node: LexborNode, tag: str) -> None:
        # A line may be an element of its own.
        if _BLOCKS.fullmatch(tag) and texts and not texts[-1].endswith("\n"):
            texts.append("\n")

    _walk(root, enter, leave)
    lines = "".join(texts).rstrip().split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    return "\n".join(lines)


def _language(node: LexborNode) -> str | None:
    """Return the language of code, empty if it is not known; None for other text."""
    around = [node, node.parent, node.parent and node.parent.parent]
    child = node.child
    code = child if child is not None and child.tag == "code" else None
    classes = [element.attributes.get("class") or "" for element in (code, *around) if element]
    signs = [sign for names in classes for sign in _CODE.finditer(names)]
    languages = [language for sign in signs for language in sign.groups() if language]
    if code is None and not signs:
        return None
    return next((name for name in languages if name.lower() not in _NO_LANGUAGE), "")
