"""SentencePiece's character map, applied to texts as `tokenizers` does it.

A precompiled character map has keys of one or more characters. The library takes a text apart into
grapheme clusters (https://www.unicode.org/reports/tr29/). It looks for the shortest key that a
cluster of fewer than 6 bytes begins with, and replaces the whole cluster: an accent behind a
character that has a key is lost. All other clusters are replaced character by character.

Most texts have only clusters of one character. The `character_table` handles those, and marks
the characters that may belong to a larger one. The compiler asks the library which these are.

Sections besides those of `table_file`:
    kind_pages  u16 per 256 code points: the number of their page
    kinds       u8, 256 to a page: an index into `KINDS`, plus 128 for a character that is a key
    composed    UTF-8: keys of several characters and what they become, each with a NUL after it
"""

import re
from collections.abc import Iterator
from functools import cached_property

from embedder.core.fast_tokenizers.table_file import (
    CHARACTERS,
    REORDERED,
    Memo,
    TableFile,
    character_table,
)

#: What a character is in a cluster, by its letter: other, control, carriage return, new line, mark
#: that extends, linker, mark that ends a conjunct, zero-width joiner, other mark, prefix,
#: pictograph, consonant.
KINDS = "ocrneluzspxk"
#: A cluster of at least this many bytes is replaced character by character.
SMALL = 6

#: The clusters of UAX 29 in letters of `KINDS`. Hangul syllables and flags are missing: they have 6
#: bytes or more, and the compiler refuses maps in which their parts are keys.
_CLUSTERS = "rn|p*(?:k(?:[ez]*l[elz]*k)*|x(?:[elu]*zx)*|[^crnp])[elusz]*|p+|[crn]"
#: Characters of one or two bytes. A small cluster of several characters has one of them.
_SHORT_CHARACTER = "[\0-\u07ff]"
_KEY = 128


class CharacterMap:
    """The character map in a tokenizer's file."""

    def __init__(self, file: TableFile) -> None:
        self._file = file
        self._table = character_table(file)

    def normalize(self, text: str) -> str:
        """Return the text as the library's normalizer would."""
        normal = text.translate(self._table)
        if REORDERED in normal or "\r\n" in text:
            return "".join(self._replaced(text))
        return normal

    def joins(self, text: str) -> bool:
        """Say whether the text's first or last character may be in a cluster with its neighbor."""
        first, last = ord(text[0]), ord(text[-1])
        table = self._table
        return (table[first][:1] == REORDERED and self._letters[first] != "p") or (
            table[last][:1] == REORDERED and self._letters[last] == "p"
        )

    def _replaced(self, text: str) -> Iterator[str]:
        """Yield what the clusters of the text and the characters between them become."""
        done = 0
        for start, stop, new in self._clusters(text):
            yield text[done:start].translate(self._table).replace(REORDERED, "")
            yield new
            done = stop
        yield text[done:].translate(self._table).replace(REORDERED, "")

    def _clusters(self, text: str) -> Iterator[tuple[int, int, str]]:
        """Yield the clusters of several characters that are replaced as one, with their places."""
        if not re.search(_SHORT_CHARACTER, text):
            return
        for cluster in re.finditer(_CLUSTERS, text.translate(self._letters)):
            start, stop = cluster.span()
            if not 1 < stop - start < SMALL:
                continue
            found = text[start:stop]
            if len(found.encode("utf-8", "surrogatepass")) >= SMALL:
                continue
            first = ord(found[0])
            if self._kind(first) & _KEY:
                yield start, stop, self._table[first].removeprefix(REORDERED)
                continue
            for length in range(2, len(found) + 1):
                new = self._composed.get(found[:length])
                if new is not None:
                    yield start, stop, new
                    break

    def _kind(self, character: int) -> int:
        pages, kinds = self._kinds
        return kinds[pages[character >> 8] << 8 | character & 0xFF]

    # Texts in which no characters can join never read the tables below.

    @cached_property
    def _kinds(self) -> tuple[memoryview, memoryview]:
        return self._file.section("kind_pages").cast("H"), self._file.section("kinds")

    @cached_property
    def _letters(self) -> dict[int, str]:
        return Memo(lambda character: KINDS[self._kind(character) & ~_KEY], limit=CHARACTERS)

    @cached_property
    def _composed(self) -> dict[str, str]:
        parts = self._file.text("composed").split("\0")[:-1]
        return dict(zip(parts[::2], parts[1::2], strict=True))
