"""Byte pair encoding as Gemma has it, over mapped tables: the same ids as `tokenizers`.

Spaces are written as `▁`, a character without a token falls back to its UTF-8 bytes, and adjacent
tokens are merged in the order of the merges' ranks, the leftmost first among equals (Sennrich et
al. 2016, https://arxiv.org/abs/1508.07909). Where no merge reaches from the end of a word across
the space after it, words are encoded one by one and remembered.

Sections besides those of `table_file`, `merges` and `added_tokens` (`added` are matched in the text
as it is, `normal` after spaces were replaced):
    byte_ids      u32[256]
    char_pages    u16 per 256 code points: the number of their page
    char_ids      u32, 256 to a page: the id + 1, or 0 for a character without a token
    whole         look-up of the tokens that their text alone becomes
    glued         UTF-8: characters that some merge joins to a space after them
"""

import re
from zlib import crc32

from embedder.core.fast_tokenizers.added_tokens import AddedTokens
from embedder.core.fast_tokenizers.merges import Merges
from embedder.core.fast_tokenizers.table_file import (
    Memo,
    TableFile,
    TableTokenizer,
    TokenIds,
    WordMemo,
)

_SPACE = "▁"
#: Entries of each: about 4 and 3 MB when full.
_WORDS = 1 << 14
_CHARACTERS = 1 << 15
#: Characters; Gemma's longest has 16 but for runs of one character, which have 31.
_LONGEST_TOKEN = 32


class BytePairEncoding(TableTokenizer):
    """A BPE tokenizer that the compiler wrote into one file."""

    def __init__(self, path: str) -> None:
        file = TableFile(path)
        super().__init__(file)
        self._whole = TokenIds(file, "whole", self._texts)
        self._added = AddedTokens(file, "added")
        self._normal = AddedTokens(file, "normal")
        self._first_characters = self._added.first_characters + self._normal.first_characters
        if _SPACE in self._normal.first_characters:
            self._first_characters += (" ",)  # which becomes one
        self._byte_ids = file.section("byte_ids").cast("I")
        self._pages = file.section("char_pages").cast("H")
        self._ids = file.section("char_ids").cast("I")
        self._merge = Merges(file).merge
        glued = file.text("glued")
        # Before a space, after a character that is not glued to it: no merge reaches across.
        self._cuts = re.compile(f"(?<=[^ {re.escape(glued)}])(?= )") if glued else None
        self._words = WordMemo(self._encode_word, limit=_WORDS)
        self._characters = Memo(self._find_character, limit=_CHARACTERS)

    def encode(self, text: str) -> list[int]:
        """See `Tokenizer`."""
        for character in self._first_characters:
            if character in text:
                return self._added.encode(text, self._encode_part)
        return self._encode_plain(text)

    def _encode_part(self, text: str) -> list[int]:
        """Encode a text without the added tokens that are matched in the text as it is."""
        if not self._normal.first_characters:
            return self._encode_plain(text)
        return self._normal.encode(text.replace(" ", _SPACE), self._encode_plain)

    def _encode_plain(self, text: str) -> list[int]:
        """Encode a text without added tokens in it, word by word where that is the same."""
        # Both are the same token; at spaces `str.split` can cut.
        if _SPACE in text:
            text = text.replace(_SPACE, " ")
        ids: list[int] = []
        words = self._words
        if self._cuts:
            for word in self._cuts.split(text):
                ids += words[word]
            return ids
        start, *words_after_spaces = text.split(" ")
        if start:
            ids += words[start]
        spaces = " "
        for word in words_after_spaces:
            if word:
                ids += words[spaces + word]
                spaces = " "
            else:
                spaces += " "
        if len(spaces) > 1:
            ids += words[spaces[1:]]
        return ids

    def _encode_word(self, word: str) -> tuple[int, ...]:
        if len(word) <= _LONGEST_TOKEN:
            utf8 = word.replace(" ", _SPACE).encode("utf-8", "replace")
            word_id = self._whole.find(utf8, crc32(utf8))
            if word_id >= 0:
                return (word_id,)
        characters = self._characters
        ids = [characters[character] for character in word]
        if -1 in ids:
            ids = self._with_bytes(word, ids)
        return self._merge(ids)

    def _with_bytes(self, word: str, ids: list[int]) -> list[int]:
        """Replace each -1 by the ids of the character's bytes."""
        expanded = []
        for character, token_id in zip(word.replace(" ", _SPACE), ids, strict=True):
            if token_id >= 0:
                expanded.append(token_id)
            else:
                expanded += [self._byte_ids[byte] for byte in character.encode("utf-8", "replace")]
        return expanded

    def _find_character(self, character: str) -> int:
        code = ord(_SPACE if character == " " else character)
        return self._ids[self._pages[code >> 8] << 8 | code & 0xFF] - 1
