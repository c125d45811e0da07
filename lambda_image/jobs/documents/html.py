"""HTML to blocks: the text that a browser would show."""

import re
from html.parser import HTMLParser

from jobs.documents.document import Outline

_HIDDEN = {"script", "style", "template", "noscript", "svg"}
#: Elements within a paragraph.
_INLINE = re.compile(
    "a|abbr|b|bdi|bdo|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|s|samp|small|span|"
    "strong|sub|sup|time|u|var|wbr"
)


def read_html(text: str, outline: Outline) -> None:
    """Add the title and the blocks of HTML to an outline."""
    reader = _HtmlReader(outline)
    reader.feed(text)
    reader.close()
    reader.end_paragraph()


class _HtmlReader(HTMLParser):
    """Reads the text that a browser would show."""

    def __init__(self, outline: Outline) -> None:
        super().__init__()
        self._outline = outline
        self._parts: list[str] = []
        self._hidden = 0
        self._preformatted = 0

    def handle_starttag(self, tag: str, _attrs: list[tuple[str, str | None]]) -> None:
        """Begin a paragraph, a heading or a hidden part."""
        if tag in _HIDDEN:
            self._hidden += 1
        elif tag == "br":
            self._parts.append("\n")
        elif tag in {"td", "th"}:
            self._parts.append(" ")
        elif not _INLINE.fullmatch(tag):
            self.end_paragraph()
        self._preformatted += tag == "pre"

    def handle_endtag(self, tag: str) -> None:
        """End it."""
        if tag in _HIDDEN:
            self._hidden = max(0, self._hidden - 1)
        elif tag == "title":
            self._outline.title = self._outline.title or " ".join("".join(self._parts).split())
            self._parts.clear()
        elif re.fullmatch("h[1-6]", tag):
            name = "".join(self._parts)
            self._parts.clear()
            self._outline.begin(int(tag[1]), name)
        elif not _INLINE.fullmatch(tag) and tag not in {"td", "th"}:
            self.end_paragraph()
        self._preformatted = max(0, self._preformatted - (tag == "pre"))

    def handle_data(self, data: str) -> None:
        """Keep text that is shown."""
        if not self._hidden:
            self._parts.append(data if self._preformatted else re.sub(r"\s+", " ", data))

    def end_paragraph(self) -> None:
        """Add the text that was read as a paragraph."""
        self._outline.add("".join(self._parts).strip(" "))
        self._parts.clear()
