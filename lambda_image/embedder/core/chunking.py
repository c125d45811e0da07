"""Documents to chunks: pieces at headings, paragraphs and sentences, measured in tokens.

Imported on demand: no cold start pays for it.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from html.parser import HTMLParser
from itertools import accumulate, groupby
from types import MappingProxyType
from typing import Any, NamedTuple
from zlib import crc32

from embedder.core.errors import InvalidFieldError
from embedder.core.tokenization import RequestTokenizer

_DEFAULT_TOKENS = 256
_DEFAULT_OVERLAP = 32
_LEAST_TOKENS = 8
#: Bytes of a chunk in UTF-8. As JSON, it fits the 40 KB of metadata that S3 Vectors takes for a
#: vector.
_MAX_BYTES = 16 * 1024
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*|\n+")
_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
#: Control characters, which JSON would write with six characters each.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_HIDDEN = {"script", "style", "template", "noscript", "svg"}
#: Elements within a paragraph.
_INLINE = re.compile(
    "a|abbr|b|bdi|bdo|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|q|s|samp|small|span|"
    "strong|sub|sup|time|u|var|wbr"
)


class Block(NamedTuple):
    """A paragraph, or a list, a table or a row, which counts as one."""

    text: str
    #: The headings above it, the outermost first.
    headings: tuple[str, ...] = ()
    #: No chunk has blocks of two sections.
    section: int = 0
    #: Metadata that only the chunks of this section have.
    metadata: Mapping[str, Any] = MappingProxyType({})


class Chunk(NamedTuple):
    """A piece of a document."""

    text: str
    headings: tuple[str, ...]
    #: Without special tokens and prompt.
    tokens: int
    metadata: Mapping[str, Any] = MappingProxyType({})


class _Unit(NamedTuple):
    text: str
    #: Its size in tokens, or in bytes where those are the tighter limit.
    weight: int
    #: Text between it and the unit before it.
    joint: str


class Chunker:
    """Divides blocks into chunks for a model with this tokenizer and its limits.

    A chunk has at most `tokens`, overlap included: by default 256, or what the model takes. It
    starts with at most `overlap` tokens that the chunk before it ends with: by default 32, or half
    of `tokens`. Sizes that the model does not take are an `InvalidFieldError`.
    """

    def __init__(
        self,
        request_tokenizer: RequestTokenizer,
        *,
        tokens: int | None = None,
        overlap: int | None = None,
    ) -> None:
        tokenizer, limits = request_tokenizer.tokenizer, request_tokenizer.limits
        #: The prompt of chunks; None for the model's default one.
        self.prompt = "document" if "document" in limits.prompts else None
        prompt = request_tokenizer.prompt_text(self.prompt)
        around = len(tokenizer.prefix) + len(tokenizer.suffix)
        around += len(tokenizer.encode(prompt)) if prompt else 0
        room = limits.max_tokens - around
        tokens = min(_DEFAULT_TOKENS, room) if tokens is None else tokens
        overlap = min(_DEFAULT_OVERLAP, tokens // 2) if overlap is None else overlap
        if not min(_LEAST_TOKENS, room) <= tokens <= room:
            raise InvalidFieldError(
                f"chunk_tokens must be from {min(_LEAST_TOKENS, room)} to {room}: the model takes "
                f"{limits.max_tokens} tokens, and special tokens and the prompt are {around}; "
                f"found {tokens}.",
                field="chunk_tokens",
            )
        if not 0 <= overlap <= tokens // 2:
            raise InvalidFieldError(
                f"overlap_tokens must be from 0 to half of chunk_tokens, {tokens // 2}; found "
                f"{overlap}.",
                field="overlap_tokens",
            )
        #: What other chunks depend on.
        self.settings = (tokens, overlap)
        self._encode = tokenizer.encode
        self._tokens, self._overlap = tokens, overlap
        self._bytes = min(_MAX_BYTES, limits.max_characters)

    def chunks(self, blocks: Iterable[Block]) -> Iterator[Chunk]:
        """Yield the chunks of a document, in its order.

        A change moves only the cuts near it: see `_parts`. A paragraph that is longer than a chunk
        shares none with others.
        """
        for _, section in groupby(blocks, key=lambda block: block.section):
            groups: list[list[_Unit]] = [[]]
            for block in section:  # all of a section have its headings
                units = list(self._units(block.text))
                if len(units) > 1:
                    groups += [units, []]
                else:
                    groups[-1] += units
            for text in (text for units in groups for text in self._packed(units)):
                tokens = len(self._encode(text))
                if tokens:
                    yield Chunk(text, block.headings, tokens, block.metadata)

    def _packed(self, units: list[_Unit]) -> Iterator[str]:
        pending, overlap = deque(_parts(units, self._tokens - self._overlap)), ""
        while pending:
            chunk = pending.popleft()
            text = _joined(overlap, chunk)
            if overlap and self._weight(text) > self._tokens:
                text = _joined("", chunk)
            if len(chunk) > 1 and self._weight(text) > self._tokens:
                # The whole has more tokens than its parts together.
                half = len(chunk) // 2
                pending.extendleft([chunk[half:], chunk[:half]])
                continue
            yield text
            overlap = self._tail(chunk)

    def _tail(self, units: list[_Unit]) -> str:
        """Return the last sentences of a chunk that fit the overlap, but never a whole chunk."""
        tail = ""
        for unit in reversed(units[1:] if self._overlap else []):
            for sentence in reversed(_SENTENCE.split(unit.text)):
                longer = f"{sentence} {tail}".strip()
                if self._weight(longer) > self._overlap:
                    return tail
                tail = longer
        return tail

    def _units(self, text: str) -> Iterator[_Unit]:
        """Yield a paragraph, or its sentences, or parts of those, each of which fits a chunk."""
        text = _CONTROL.sub("", text).strip()
        weight = self._weight(text)
        if weight <= self._tokens:
            if text:
                yield _Unit(text, weight, "\n\n")
            return
        joint = "\n\n"
        for sentence in filter(None, _SENTENCE.split(text)):
            for piece in self._pieces(sentence):
                yield _Unit(piece, self._weight(piece), joint)
                joint = " "

    def _pieces(self, text: str) -> Iterator[str]:
        text = text.strip()
        if self._weight(text) <= self._tokens or len(text) < 2:
            if text:
                yield text
            return
        middle = len(text) // 2
        space = text.rfind(" ", middle // 2, middle) + 1 or middle
        yield from self._pieces(text[:space])
        yield from self._pieces(text[space:])

    def _weight(self, text: str) -> int:
        size = len(text.encode())
        in_bytes = -(-size * self._tokens // self._bytes)
        # A text that is too long anyway is not tokenized.
        return in_bytes if size > self._bytes else max(in_bytes, len(self._encode(text)))


def _parts(units: list[_Unit], room: int) -> Iterator[list[_Unit]]:
    """Divide units into parts that fit, at places that depend on the text near them alone.

    A text that is longer than three parts is cut after each unit with the lowest checksum of all
    within two fifths of a part before and after it. Between two cuts the text is divided evenly.
    """
    if not units:
        return
    ends = list(accumulate(unit.weight for unit in units))
    cuts = []
    if ends[-1] > 3 * room:
        sums = [crc32(unit.text.encode()) for unit in units]
        reach, low, high = room * 2 // 5, 0, 0
        for position, (end, own) in enumerate(zip(ends, sums, strict=True)):
            while end - ends[low] > reach:
                low += 1
            while high < len(ends) and ends[high] - end <= reach:
                high += 1
            # Of equal ones, the first. Most are not the lowest, which a few of the others show.
            if all(sums[index] > own for index in range(low, position)) and all(
                sums[index] >= own for index in range(position + 1, high)
            ):
                cuts.append(position + 1)
    start = 0
    for stop in dict.fromkeys([*cuts, len(units)]):
        yield from _evenly(units[start:stop], room)
        start = stop


def _evenly(units: list[_Unit], room: int) -> Iterator[list[_Unit]]:
    ends = list(accumulate(unit.weight for unit in units))
    count = -(-ends[-1] // room)
    if count == 1 or len(units) == 1:
        yield units
        return
    middle = ends[-1] * (count // 2) / count
    stop = min(range(1, len(units)), key=lambda place: abs(ends[place - 1] - middle))
    yield from _evenly(units[:stop], room)
    yield from _evenly(units[stop:], room)


def _joined(overlap: str, units: list[_Unit]) -> str:
    text = "".join(unit.joint + unit.text for unit in units).strip()
    return f"{overlap}\n\n{text}" if overlap else text


def read_blocks(text: str, format: str) -> tuple[str, list[Block]]:  # noqa: A002
    """Return a document's title, which may be empty, and its blocks.

    The format is `text`, `markdown`, of which front matter is left out, or `html`.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    outline = _Outline()
    if format == "markdown":
        _read_markdown(split_front_matter(text)[1], outline)
    elif format == "html":
        reader = _HtmlReader(outline)
        reader.feed(text)
        reader.close()
        reader.end_paragraph()
    else:
        for paragraph in _PARAGRAPH.split(text):
            outline.add(paragraph)
    outline.end_section()
    return outline.title, outline.blocks


def split_front_matter(text: str) -> tuple[list[str], str]:
    """Return the lines between two lines `---` at the start of Markdown, and the rest."""
    lines = text.split("\n")
    if lines[0].rstrip() == "---":
        for number, line in enumerate(lines[1:], 1):
            if line.rstrip() == "---":
                return lines[1:number], "\n".join(lines[number + 1 :])
    return [], text


class _Outline:
    """Blocks under headings, as they are read."""

    def __init__(self) -> None:
        self.title = ""
        self.blocks: list[Block] = []
        self._headings: list[tuple[int, str]] = []
        self._section = 0
        self._empty = False

    def add(self, text: str) -> None:
        """Add a paragraph to the section."""
        if text.strip():
            names = tuple(name for _, name in self._headings)
            self.blocks.append(Block(text.strip("\n"), names, self._section))
            self._empty = False

    def end_section(self) -> None:
        """Keep a heading with nothing below it: it is text of the document."""
        if self._empty:
            self.add(self._headings[-1][1])

    def begin(self, level: int, name: str) -> None:
        """Begin a section."""
        name = " ".join(name.split())
        if not name:
            return
        if self._headings and self._headings[-1][0] >= level:
            self.end_section()
        while self._headings and self._headings[-1][0] >= level:
            self._headings.pop()
        if level == 1 and not self.title:
            self.title = name
        self._headings.append((level, name))
        self._section += 1
        self._empty = True


def _read_markdown(text: str, outline: _Outline) -> None:
    lines: list[str] = []
    fence = ""

    def end() -> None:
        outline.add("\n".join(lines))
        lines.clear()

    for line in text.split("\n"):
        marker = _FENCE.match(line)
        if fence:
            lines.append(line)
            if marker and marker[1].startswith(fence) and not line.strip(" `~"):
                fence = ""
                end()
        elif marker:
            end()
            fence = marker[1]
            lines.append(line)
        elif heading := _HEADING.match(line):
            end()
            outline.begin(len(heading[1]), heading[2] or "")
        elif (rule := _UNDERLINE.match(line)) and len(lines) == 1:
            outline.begin(1 if rule[1][0] == "=" else 2, lines.pop())
        elif line.strip():
            lines.append(line)
        else:
            end()
    end()


class _HtmlReader(HTMLParser):
    """Reads the text that a browser would show."""

    def __init__(self, outline: _Outline) -> None:
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
