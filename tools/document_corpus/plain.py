"""The words of a document by a plain extraction of its own, to which its chunks are compared.

It leaves out what docs/search.md leaves out by name, and shares no code with the readers.
"""

import csv
import html
import io
import json
import re
import subprocess
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any, NamedTuple

#: A word, or a sign of Chinese or Japanese, whose words have no space between them.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W_\u3040-\u30ff\u3400-\u9fff]+")
_HIDDEN = re.compile(
    "script|style|template|noscript|svg|nav|head|canvas|select|audio|video|iframe|datalist"
)
#: Classes and ids of navigation and permalinks; `header` is Texinfo's.
_HIDDEN_NAME = re.compile(
    "breadcrumbs?|header|nav|nav-panel|navbar|navfooter|navheader|navigation|toc|headerlink|permalink|linenos?"
)
_VOID = re.compile("area|base|br|col|embed|hr|img|input|link|meta|source|track|wbr")
_INLINE = re.compile(
    "a|abbr|acronym|b|bdo|big|cite|code|del|dfn|em|font|i|ins|kbd|label|mark|s|samp|small|span|"
    "strike|strong|sub|sup|time|tt|u|var"
)
#: What old programs show in place of a drawing.
_FALLBACK = re.compile(r"<mc:Fallback>.*?</mc:Fallback>", re.DOTALL)
_LISTS = {"ul", "ol", "dl", "dir", "menu"}
#: The fewest links into the page that are a table of contents.
_CONTENTS = 3


class Plain(NamedTuple):
    """Text of a document."""

    text: str
    #: Groups of lines that are lines of the document: code, and rows of tables.
    lines: Sequence[Sequence[str]] = ()


def words(text: str) -> list[str]:
    """Return the words of a text, without case and ligatures."""
    return _WORD.findall(unicodedata.normalize("NFKC", text).replace("\u00ad", "").lower())


def lost_words(plain: Plain, texts: Iterable[str], *, as_letters: bool) -> Counter[str]:
    """Return words of the plain text, and how many more of each it has than the chunks.

    With `as_letters`, a word is not lost if its letters follow each other in the chunks, or if it
    is two words there: where words end in a PDF is for each program to guess.
    """
    found = words("\n".join(texts))
    lost = Counter(words(plain.text)) - Counter(found)
    if as_letters and lost:
        letters, known = "".join(found), {*found}

        def is_read(word: str) -> bool:
            return word in letters or any(
                {word[:end], word[end:]} <= known for end in range(1, len(word))
            )

        lost = Counter({word: count for word, count in lost.items() if not is_read(word)})
    return lost


def flattened(plain: Plain, texts: Iterable[str]) -> list[str]:
    """Return lines that have become one line with the next one."""
    shown = {" ".join(words(line)) for text in texts for line in text.split("\n")}
    long = "\n".join(line for line in shown if line)
    flat = []
    for group in plain.lines:
        lines = [line for raw in group if (line := " ".join(words(raw)))]
        for line, following in pairwise(lines):
            if line not in shown and f"{line} {following}" in long:
                flat.append(line)
    return flat


class _Html(HTMLParser):
    """The visible text of HTML, and the lines of `pre` and of tables."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.lines: list[list[str]] = []
        self._open: list[tuple[str, bool]] = []
        self._pre: list[str] | None = None
        #: Where the outermost list begins, its links into the page, and whether it has more.
        self._list = (0, 0, False)
        self._link = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "body":  # what is open in `head` hides nothing of it
            self._open.clear()
        if tag in _LISTS and not any(name in _LISTS for name, _ in self._open):
            self._list = (len(self.text), 0, False)
        if tag == "a":
            self._link = attributes.get("href", "")
            if "#" in self._link:  # a footnote's number is a word
                self.text.append(" ")
        if tag == "img" and not any(hidden for _, hidden in self._open):
            self.text.append(f" {attributes.get('alt', '')} ")
        if not _VOID.fullmatch(tag):
            names = f"{attributes.get('class')} {attributes.get('id')}".split()
            hidden = (
                _HIDDEN.fullmatch(tag) is not None
                or "hidden" in attributes
                or attributes.get("aria-hidden") == "true"
                or attributes.get("role") == "navigation"
                or any(map(_HIDDEN_NAME.fullmatch, names))
                or re.search(r"display:\s*none", attributes.get("style", "")) is not None
            )
            self._open.append((tag, hidden))
        if tag == "pre":
            self._pre = []
        if not _INLINE.fullmatch(tag):
            self.text.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._link = ""
        while any(name == tag for name, _ in self._open):
            if self._open.pop()[0] == tag:
                break
        if tag in _LISTS and not any(name in _LISTS for name, _ in self._open):
            begin, links, has_more = self._list
            if links >= _CONTENTS and not has_more:
                del self.text[begin:]
        if tag == "pre" and self._pre is not None:
            self.lines.append("".join(self._pre).split("\n"))
            self._pre = None
        if not _INLINE.fullmatch(tag):
            self.text.append("\n")

    def handle_data(self, data: str) -> None:
        if any(hidden for _, hidden in self._open):
            return
        self.text.append(data)
        if self._pre is not None:
            self._pre.append(data)
        if words(data):
            begin, links, has_more = self._list
            in_page = self._link.startswith("#")
            self._list = (begin, links + in_page, has_more or not in_page)


def _html(data: bytes) -> Plain:
    declared = re.search(rb"charset=[\"']?([\w-]+)", data[:2048])
    parser = _Html()
    parser.feed(data.decode(declared[1].decode() if declared else "utf-8", errors="replace"))
    parser.close()
    return Plain("".join(parser.text), parser.lines)


def _markdown(data: bytes) -> Plain:
    text = re.sub(r"\A---\n.*?\n---\n", "", data.decode().replace("\r\n", "\n"), flags=re.DOTALL)
    lines: list[list[str]] = []

    # What stands in code is text, so it is put aside while the rest loses its markup.
    fences = re.findall(r"^ *(`{3,}|~{3,})[^\n]*\n(.*?)^ *\1", text, re.DOTALL | re.MULTILINE)
    lines += [content.split("\n") for _, content in fences]
    prose = re.sub(r"^ *(`{3,}|~{3,})[^\n]*\n.*?^ *\1", "\n", text, flags=re.DOTALL | re.MULTILINE)
    lines += [rows.split("\n") for rows in re.findall(r"(?:^\|.*\n)+", prose, re.MULTILINE)]
    prose = re.sub(r"<!--.*?-->|<(style|audio|video)\b.*?</\1>", " ", prose, flags=re.DOTALL)
    prose = re.sub(r"^ *\[[^\]]+\]:.*$", "", prose, flags=re.MULTILINE)
    prose = re.sub(
        r"(?:^ *[*+-] \[[^\]\n]*\]\(#[^)\n]*\) *\n){3,}", "\n", prose, flags=re.MULTILINE
    )
    prose = re.sub(r"\]\([^()]*(?:\([^()]*\)[^()]*)*\)", "] ", prose)
    prose = re.sub(r"\]\[[^\]]*\]", "] ", prose)
    prose = re.sub(r"`([^`\n]+)`", lambda span: span[1].replace("<", " ").replace(">", " "), prose)
    prose = re.sub(r"[*]+|\\(?=[^\w\s])|^ *\d+[.)] ", "", prose, flags=re.MULTILINE)
    prose = html.unescape(re.sub(r"</?[a-zA-Z][^>]*>", "", prose))
    return Plain("\n".join([prose, *(content for _, content in fences)]), lines)


def _csv(data: bytes) -> Plain:
    table = list(csv.reader(io.StringIO(data.decode("utf-8-sig")), skipinitialspace=True))
    absent = {"", "NA", "NaN", "nan"}
    cells = [cell for row in table for cell in row if cell.strip() not in absent]
    # A name is shown in each row that has a value for it; one without a value is in none.
    return Plain("\n".join(cells[len(table[0]) :]))


def _json(data: bytes) -> Plain:
    return Plain("\n".join(_leaves(json.loads(data))))


def _leaves(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    elif value is not None:
        yield value if isinstance(value, str) else json.dumps(value)


def _pdf(data: bytes) -> Plain:
    command = ["pdftotext", "-enc", "UTF-8", "-", "-"]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    return Plain(done.stdout.decode())


def _office(names: str) -> Callable[[bytes], Plain]:
    """Return a reader of XML whose texts are in elements `t` of paragraphs."""

    def read(data: bytes) -> Plain:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            parts = filter(re.compile(names).fullmatch, archive.namelist())
            xml = "\n".join(archive.read(name).decode() for name in parts)
        return Plain("\n".join(map(_runs, re.split(r"</\w+:p>", _FALLBACK.sub("", xml)))))

    return read


def _runs(xml: str) -> str:
    return html.unescape("".join(re.findall(r"<(?:\w+:)?t(?: [^>]*)?>([^<]*)<", xml)))


def _xlsx(data: bytes) -> Plain:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = archive.namelist()
        shared = archive.read("xl/sharedStrings.xml") if "xl/sharedStrings.xml" in names else b""
        texts = [_runs(item) for item in shared.decode().split("</si>")]
        sheets = "".join(archive.read(name).decode() for name in names if "/sheet" in name)
    cells = re.findall(r'<c [^>]*t="s"[^>]*><v>(\d+)<', sheets)
    return Plain("\n".join(texts[int(number)] for number in cells))


def _epub(data: bytes) -> Plain:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        pages = [_html(archive.read(n)) for n in archive.namelist() if n.endswith("html")]
    text = "\n".join(page.text for page in pages)
    return Plain(text, [group for page in pages for group in page.lines])


def _notebook(data: bytes) -> Plain:
    texts: list[str] = []
    lines: list[Sequence[str]] = []
    for cell in json.loads(data)["cells"]:
        source = "".join(cell["source"])
        plain = _markdown(source.encode()) if cell["cell_type"] == "markdown" else None
        texts.append(plain.text if plain else source)
        lines += plain.lines if plain else [source.split("\n")]
    return Plain("\n".join(texts), lines)


def _rst(data: bytes) -> Plain:
    """Return the paragraphs without markup: what markup shows is for directives to say."""
    return Plain(
        "\n\n".join(re.findall(r"^(?:\w[^`|<>_*:\\\n]*\n)+(?=\n)", data.decode(), re.MULTILINE))
    )


#: Suffix → words of a document.
PLAIN: dict[str, Callable[[bytes], Plain]] = {
    ".html": _html,
    ".md": _markdown,
    ".txt": lambda data: Plain(data.decode()),
    ".csv": _csv,
    ".json": _json,
    ".pdf": _pdf,
    ".docx": _office(r"word/document\.xml"),
    ".pptx": _office(r"ppt/slides/slide\d+\.xml"),
    ".xlsx": _xlsx,
    ".epub": _epub,
    ".ipynb": _notebook,
    ".rst": _rst,
}
