"""BERT's WordPiece, over mapped tables: the same ids as `tokenizers`, from the first millisecond.

A text is cut at white space. What lies between is normalized, split at punctuation and Chinese
characters, and each word is taken apart greedily into the longest tokens that fit (Wu et al. 2016,
https://arxiv.org/abs/1609.08144). Both steps remember their results, so that a common word costs
one look-up.

Decomposition sorts the marks that follow a letter by their combining class. BERT then strips marks,
so that the order hardly ever shows; but some marks stay (spacing ones, and those younger than the
library's tables), and only around those does `_Reordering` run.

Sections besides those of `table_file` and `added_tokens`:
    words        u32: the unknown token, and how long a word may be, in characters
    token_slots  look-up of all tokens
    prefixes     bits, a power of two: set at the CRC-32 of all that a token begins with
    continuation UTF-8: what tokens inside a word begin with, `##`
    odd_spaces   UTF-8: characters that Python splits at and this tokenizer does not
    marks        u32 triples: character, its place in the order (0: it is never moved), 1 if it
                 stays. Marks that are neither here nor stay are gone before the sorting.
    compounds    UTF-8 triples: a character that is one or two other marks, the one, and the other
                 or U+0000
"""

from collections.abc import Callable
from functools import cached_property
from zlib import crc32

from embedder.core.fast_tokenizers.added_tokens import AddedTokens
from embedder.core.fast_tokenizers.table_file import (
    REORDERED,
    Memo,
    TableFile,
    TableTokenizer,
    TokenIds,
    WordMemo,
    character_table,
)

#: Entries; 3 to 4 MB when full, and 10 with nothing but the longest words.
_REMEMBERED = 1 << 14


class WordPiece(TableTokenizer):
    """A WordPiece tokenizer that the compiler wrote into one file."""

    def __init__(self, path: str) -> None:
        self._file = file = TableFile(path)
        super().__init__(file)
        unknown, self._longest_word = file.section("words").cast("I")
        self.unknown, self._unknown = unknown, (unknown,)
        self._ids = TokenIds(file, "token_slots", self._texts)
        self._prefixes = file.section("prefixes")
        self._continuation = file.section("continuation").tobytes()
        self._added = AddedTokens(file, "added")
        self._odd_spaces = file.text("odd_spaces")
        self._rare = (*self._added.first_characters, *self._odd_spaces)
        self._characters = character_table(file)
        self._chunks = WordMemo(self._encode_chunk, limit=_REMEMBERED)
        self._words = WordMemo(self._encode_word, limit=_REMEMBERED)
        # One object for each id. Names, numbers and other scripts are words of many tokens, and an
        # id takes 32 bytes besides its place in the tuple: most of the memory of a cache.
        self._shared: Memo[int, int] = Memo(int, limit=_REMEMBERED)

    def encode(self, text: str) -> list[int]:
        """Return the text's own ids: no special tokens around them, no truncation."""
        for character in self._rare:
            if character in text:
                return self._added.encode(text, self._encode_part)
        ids: list[int] = []
        chunks = self._chunks
        for chunk in text.split():
            ids += chunks[chunk]
        return ids

    def _encode_part(self, text: str) -> list[int]:
        """Encode a text without added tokens in it, perhaps with spaces that are odd."""
        odd = any(character in text for character in self._odd_spaces)
        ids: list[int] = []
        for chunk in text.split(" ") if odd else text.split():
            ids += self._chunks[chunk]
        return ids

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        # Normalized, with spaces between its words.
        normal = chunk.translate(self._characters)
        if REORDERED in normal:
            normal = self._reordered(chunk)
        if " " not in normal:
            return self._encode_word(normal) if normal else ()
        ids: list[int] = []
        for word in normal.split(" "):
            if word:
                ids += self._words[word]
        return tuple(ids)

    @cached_property
    def _reordered(self) -> Callable[[str], str]:
        # Hardly any text needs it: its tables are not read before one does.
        return _Reordering(self._file, self._characters).normalize

    def _encode_word(self, word: str) -> tuple[int, ...]:
        if len(word) > self._longest_word:
            return self._unknown
        utf8 = word.encode("utf-8", "replace")
        word_id = self._ids.find(utf8, crc32(utf8))
        if word_id >= 0:
            return (word_id,)
        characters = [character.encode("utf-8", "replace") for character in word]
        ids = []
        head = b""
        start = 0
        while start < len(characters):
            token_id, start = self._longest(head, characters, start)
            if token_id < 0:
                return self._unknown
            ids.append(self._shared[token_id])
            head = self._continuation
        return tuple(ids)

    def _longest(self, head: bytes, characters: list[bytes], start: int) -> tuple[int, int]:
        """Return the longest token at `start`, or -1, and where it ends."""
        prefixes = self._prefixes
        mask = 8 * len(prefixes) - 1
        crc = crc32(head)
        crcs = []
        # Forward while any token has this prefix, then back to the last that was whole.
        for stop in range(start, len(characters)):
            crc = crc32(characters[stop], crc)
            bit = crc & mask
            if not prefixes[bit >> 3] >> (bit & 7) & 1:
                break
            crcs.append(crc)
        while crcs:
            stop = start + len(crcs)
            token_id = self._ids.find(head + b"".join(characters[start:stop]), crcs.pop())
            if token_id >= 0:
                return token_id, stop
        return -1, start


class _Reordering:
    """Normalizes texts with marks that stay, in the right order."""

    def __init__(self, file: TableFile, characters: dict[int, str]) -> None:
        self._characters = characters
        numbers = file.section("marks").cast("I").tolist()
        marks = tuple(map(chr, numbers[::3]))
        self._order = dict(zip(marks, numbers[1::3], strict=True))
        self._stripped = {
            mark for mark, stays in zip(marks, numbers[2::3], strict=True) if not stays
        }
        self._expansions = {mark: mark for mark in self._stripped}
        compounds = file.text("compounds")
        for start in range(0, len(compounds), 3):
            self._expansions[compounds[start]] = compounds[start + 1 : start + 3].rstrip("\0")

    def normalize(self, text: str) -> str:
        """Do what `str.translate` with the characters would, but sort marks as Unicode says."""
        normalized: list[str] = []
        run: list[str] = []
        for source in text:
            normal = self._characters[ord(source)].removeprefix(REORDERED)
            for mark in normal or self._expansions.get(source, ""):
                if self._order.get(mark, 0):
                    run.append(mark)
                    continue
                normalized += self._sorted(run)
                run.clear()
                if mark not in self._stripped:
                    normalized.append(mark)
        return "".join(normalized + self._sorted(run))

    def _sorted(self, run: list[str]) -> list[str]:
        """Return the marks of a run that stay, in their order."""
        # Python's sort is stable, as the standard asks.
        return sorted(
            (mark for mark in run if mark not in self._stripped), key=self._order.__getitem__
        )
