"""Title, metadata and blocks of a document, as every reader gives them."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from jobs.errors import BatchError

#: The most paragraphs or rows of a document.
MAX_BLOCKS = 200_000

#: For `str.translate`: what ends a line is a line break, and what no one sees is left out, such as
#: control characters, soft hyphens, spaces without width, marks of direction, and tags. Joiners
#: and the variants of emoji change what is seen.
VISIBLE: dict[int, str | None] = dict.fromkeys(
    [
        *(*range(9), *range(0x0E, 0x20), *range(0x7F, 0xA0), 0xAD, 0x34F, 0x61C, 0x180E),
        *(0x200B, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2060, 0x2070)),
        *(0xFEFF, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080), *range(0xE0100, 0xE01F0)),
    ]
) | dict.fromkeys([0x0B, 0x0C, 0x85, 0x2028, 0x2029], "\n")


class RefusedDocumentError(BatchError):
    """A document cannot be read. The same object is refused again."""


class Block(NamedTuple):
    """A paragraph, or a list, a table or a row, which counts as one."""

    text: str
    #: The headings above it, the outermost first.
    headings: tuple[str, ...] = ()
    #: No chunk has blocks of two sections.
    section: int = 0
    #: Metadata that only the chunks of this section have.
    metadata: Mapping[str, Any] = MappingProxyType({})
    #: Lines that each piece of a block begins with, if it is longer than a chunk: a table's header,
    #: the begin of a code fence with its language. The text begins with them too.
    opening: str = ""
    #: Lines that each piece ends with: the end of a code fence. The text ends with them too.
    closing: str = ""


class Chunk(NamedTuple):
    """A piece of a document."""

    text: str
    #: Those that are embedded with the text, the outermost first.
    headings: tuple[str, ...]
    #: Of the text, without special tokens, prompt and headings.
    tokens: int
    metadata: Mapping[str, Any] = MappingProxyType({})
    #: How many of the tokens stand for text that the model's vocabulary lacks.
    unknown: int = 0
    #: Its number among the chunks of a block that is longer than one, from 1; 0 for whole blocks.
    piece: int = 0


class Document(NamedTuple):
    """Title, metadata and blocks of an object."""

    title: str
    metadata: dict[str, Any]
    blocks: list[Block]
    #: Sentences on what was left out: rows that are broken, pages without text.
    problems: tuple[str, ...] = ()


def check_blocks(blocks: Sequence[Block]) -> None:
    """Refuse a document without text, or with too much of it."""
    if not blocks:
        raise RefusedDocumentError("it has no text")
    if len(blocks) > MAX_BLOCKS:
        raise RefusedDocumentError(
            f"it has {len(blocks):,} paragraphs or rows; up to {MAX_BLOCKS:,} are allowed"
        )


class Outline:
    """Blocks under headings, as they are read."""

    def __init__(self) -> None:
        self.title = ""
        self.blocks: list[Block] = []
        self._headings: list[tuple[int, str]] = []
        self._section = 0
        self._empty = False

    def add(self, text: str, *, opening: str = "", closing: str = "") -> None:
        """Add a paragraph, a list or a table to the section."""
        if text.strip():
            names = tuple(name for _, name in self._headings)
            self.blocks.append(
                Block(text.strip("\n"), names, self._section, opening=opening, closing=closing)
            )
            check_blocks(self.blocks)
            self._empty = False

    def end_section(self) -> None:
        """Keep a heading with nothing below it: it is text of the document."""
        if self._empty:
            self.add(self._headings[-1][1])

    def begin(self, level: int, name: str) -> None:
        """Begin a section."""
        name = " ".join(name.translate(VISIBLE).split())
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
