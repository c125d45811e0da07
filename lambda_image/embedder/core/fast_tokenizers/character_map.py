"""SentencePiece's character map, applied to texts as `tokenizers` does it.

A precompiled character map has keys of one or more characters. The library takes a text apart into
grapheme clusters (https://www.unicode.org/reports/tr29/). It looks for the shortest key that a
cluster of fewer than 6 bytes begins with, and replaces the whole cluster: an accent behind a
character that has a key is lost. All other clusters are replaced character by character.

Most texts have only clusters of one character. The `character_table` handles those, and marks
the characters that may belong to a larger one. The compiler asks the library which these are.

Sections besides those of `table_file`:
    kind_pages  u16 per 256 code points: the number of their page
    kinds       u8, 256 to a page: an index into `CHARACTER_CLASSES`, plus 128 for a character that
                is a key
    composed    UTF-8: keys of several characters and their texts, each with a NUL after it
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
CHARACTER_CLASSES = "ocrneluzspxk"
#: A cluster of at least this many bytes is replaced character by character.
SMALL = 6

#: The clusters of UAX 29 in letters of `CHARACTER_CLASSES`. Hangul syllables and flags are missing:
#: they have 6 bytes or more, and the compiler refuses maps in which their parts are keys.
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
        first_code, last_code = ord(text[0]), ord(text[-1])
        table = self._table
        return (table[first_code][:1] == REORDERED and self._letters[first_code] != "p") or (
            table[last_code][:1] == REORDERED and self._letters[last_code] == "p"
        )

    def _replaced(self, text: str) -> Iterator[str]:
        """Yield what the clusters of the text and the characters between them become."""
        done = 0
        for start, stop, replacement in self._clusters(text):
            yield text[done:start].translate(self._table).replace(REORDERED, "")
            yield replacement
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
            characters = text[start:stop]
            if len(characters.encode("utf-8", "surrogatepass")) >= SMALL:
                continue
            first_code = ord(characters[0])
            if self._kind(first_code) & _KEY:
                yield start, stop, self._table[first_code].removeprefix(REORDERED)
                continue
            for length in range(2, len(characters) + 1):
                replacement = self._composed.get(characters[:length])
                if replacement is not None:
                    yield start, stop, replacement
                    break

    def _kind(self, character: int) -> int:
        pages, classes = self._kinds
        return classes[pages[character >> 8] << 8 | character & 0xFF]

    # Texts in which no characters can join never read the tables below.

    @cached_property
    def _kinds(self) -> tuple[memoryview, memoryview]:
        return self._file.section("kind_pages").cast("H"), self._file.section("kinds")

    @cached_property
    def _letters(self) -> dict[int, str]:
        return Memo(
            lambda character: CHARACTER_CLASSES[self._kind(character) & ~_KEY], limit=CHARACTERS
        )

    @cached_property
    def _composed(self) -> dict[str, str]:
        keys_and_texts = self._file.text("composed").split("\0")[:-1]
        return dict(zip(keys_and_texts[::2], keys_and_texts[1::2], strict=True))
