"""Markdown to blocks: CommonMark with tables, read as the HTML that it is written for."""

import re
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from jobs.documents.document import Outline, RefusedDocumentError
from jobs.documents.html import read_html

_MAX_LEVELS = 100
_FOOTNOTE = re.compile(r"\[\^[^\]\n]+\]:")
#: The begin of an element that needs an end. Without one, `<title>` hides the rest of a document,
#: and `npm install <name>` means a name.
_OPENING = re.compile(
    r"<(?!(?:a|area|base|body|br|center|col|dd|div|dt|embed|font|head|hr|html|img|input|li|link|"
    r"meta|option|p|param|rp|rt|source|tbody|td|tfoot|th|thead|tr|track|wbr)[\s/>])"
    r"([a-z][\w.:-]*)(?=[\s/>])(?![^<>]*/>)",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"</([a-z][\w.:-]*)")
#: Ids and classes at the end of a heading.
_ATTRIBUTES = re.compile(r"\{:?\s*[#.][^{}]*\}\s*$")


class _Parser(MarkdownIt):
    """Parses what readers of Markdown agree on. Targets of links are not shown, and can be any."""

    def __init__(self) -> None:
        super().__init__("commonmark", {"maxNesting": _MAX_LEVELS + 10})
        self.enable(["strikethrough", "table"])
        self.block.ruler.before("reference", "footnote", _footnote, {"alt": ["paragraph"]})

    def validateLink(self, _url: str) -> bool:  # noqa: N802
        """Allow any target."""
        return True

    def normalizeLink(self, url: str) -> str:  # noqa: N802
        """Leave a target as it is."""
        return url


def _footnote(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Take a footnote as a paragraph. CommonMark makes one of one word the target of a link."""

    def text_begin(line: int) -> int:
        return state.bMarks[line] + state.tShift[line]

    if not _FOOTNOTE.match(state.src, text_begin(start)):
        return False
    if silent:
        return True
    stop = start + 1
    while stop < end and not (state.isEmpty(stop) or state.src.startswith("[", text_begin(stop))):
        stop += 1
    state.push("paragraph_open", "p", 1)
    inline = state.push("inline", "", 0)
    inline.content = state.getLines(start, stop, state.blkIndent, keepLastLF=False).strip()
    inline.children = []
    state.push("paragraph_close", "p", -1)
    state.line = stop
    return True


_PARSER = _Parser()


def read_markdown(text: str, outline: Outline) -> None:
    """Add the blocks of Markdown without front matter to an outline."""
    tokens = _PARSER.parse(text)
    if any(token.level >= _MAX_LEVELS for token in tokens):
        raise RefusedDocumentError(f"its lists and quotations have more than {_MAX_LEVELS} levels")
    for before, token in pairwise(tokens):
        if before.type == "heading_open" and token.children:
            ending = token.children[-1]
            ending.content = _ATTRIBUTES.sub("", ending.content).rstrip()
    _show_names_of_elements(tokens)
    read_html(_PARSER.renderer.render(tokens, _PARSER.options, {}), outline)


def _show_names_of_elements(tokens: list[Token]) -> None:
    """Make the begin of an element without an end text."""
    closed: set[str] = set()
    inner = [child for token in tokens for child in (token, *(token.children or ()))]
    for token in reversed(inner):
        if token.type in {"html_block", "html_inline"}:
            pieces = _OPENING.split(token.content)
            for index in range(len(pieces) - 2, 0, -2):
                closed.update(_CLOSING.findall(pieces[index + 1].lower()))
                begin = "<" if pieces[index].lower() in closed else "&lt;"
                pieces[index] = begin + pieces[index]
            closed.update(_CLOSING.findall(pieces[0].lower()))
            token.content = "".join(pieces)
