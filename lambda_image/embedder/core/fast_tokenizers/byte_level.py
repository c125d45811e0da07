r"""Byte-level BPE, as in GPT-2, RoBERTa, ModernBERT and Qwen, over mapped tables.

A text is split into words by a regular expression, a word is written as UTF-8, and its bytes are
merged (Radford et al. 2019; https://github.com/openai/gpt-2/blob/master/src/encoder.py). The
vocabulary spells each byte as a printable character: `Ġ` is a space.

Python's `re` has no `\p{L}`, and its Unicode version is not the library's. So each character is
replaced by an ASCII character that the regular expression treats alike, a letter by `a` and a digit
by `0`, and the compiler writes the expression for these. Before that, a text is cut where white
space begins, and the pieces are remembered: a common one costs one look-up.

Sections besides those of `table_file`, `merges` and `added_tokens` (`added` are matched in the text
as it is, `normal` after normalization):
    byte_ids    u32[256]
    whole       look-up of the tokens that their text alone becomes
    alike_pages u16 per 256 code points: the number of their page
    alike       u8, 256 to a page: the ASCII character, and 128 if NFC may change the character
    cut         UTF-8: a regular expression that cuts a text into pieces
    split       UTF-8: one that splits the ASCII characters of a piece into words
    options     u8: 1 if a text gets a space in front, 1 if it is normalized to NFC
"""

import re
from zlib import crc32

from embedder.core.fast_tokenizers.added_tokens import AddedTokens
from embedder.core.fast_tokenizers.merges import Merges
from embedder.core.fast_tokenizers.table_file import (
    CHARACTERS,
    Memo,
    TableFile,
    TableTokenizer,
    TokenIds,
    WordMemo,
)

#: Entries; 3 to 4 MB when full.
_REMEMBERED = 1 << 14
_ASCII = 0x7F


def _byte_alphabet() -> str:
    """Return GPT-2's character for each byte: itself if it is printable, else one from U+0100 on.

    Source: `bytes_to_unicode` in https://github.com/openai/gpt-2/blob/master/src/encoder.py.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    replacements = iter(range(0x100, 0x200))
    return "".join(chr(byte if byte in printable else next(replacements)) for byte in range(0x100))


BYTE_ALPHABET = _byte_alphabet()


class ByteLevel(TableTokenizer):
    """A byte-level BPE tokenizer that the compiler wrote into one file."""

    def __init__(self, path: str) -> None:
        self._file = file = TableFile(path)
        super().__init__(file)
        self._whole = TokenIds(file, "whole", self._texts)
        self._added = AddedTokens(file, "added")
        self._normal = AddedTokens(file, "normal")
        self._byte_ids = file.section("byte_ids").cast("I")
        self._pages = file.section("alike_pages").cast("H")
        self._alike = file.section("alike")
        self._prefix_space, self._composes = file.section("options")
        self._cut = re.compile(file.text("cut")).findall
        self._split = re.compile(file.text("split")).findall
        self._merge = Merges(file).merge
        self._pieces = WordMemo(self._encode_piece, limit=_REMEMBERED)
        self._words = WordMemo(self._encode_word, limit=_REMEMBERED)
        self._characters = Memo(self._find_alike, limit=CHARACTERS)
        # One object for each id, as in WordPiece: a character may be three tokens.
        self._shared: Memo[int, int] = Memo(int, limit=_REMEMBERED)

    def encode(self, text: str) -> list[int]:
        """Return the text's own ids: no special tokens around them, no truncation."""
        if not self._added.may_be_in(text):
            return self._encode_part(text)
        return self._added.encode(text, self._encode_part)

    def _encode_part(self, text: str) -> list[int]:
        """Encode a text between tokens that are matched in the text as it is."""
        if self._composes and not text.isascii():
            text = self._compose(text)
        if not self._normal.may_be_in(text):
            return self._encode_plain(text)
        return self._normal.encode(text, self._encode_plain)

    def _encode_plain(self, text: str) -> list[int]:
        """Encode a normalized text without added tokens in it."""
        if self._prefix_space and text and text[0] != " ":
            text = f" {text}"
        ids: list[int] = []
        pieces = self._pieces
        for piece in self._cut(text):
            ids += pieces[piece]
        return ids

    def _encode_piece(self, piece: str) -> tuple[int, ...]:
        words = self._split(piece.translate(self._characters))
        if len(words) == 1:
            return self._encode_word(piece)
        ids: list[int] = []
        start = 0
        for word in words:
            stop = start + len(word)
            ids += self._words[piece[start:stop]]
            start = stop
        return tuple(ids)

    def _encode_word(self, word: str) -> tuple[int, ...]:
        utf8 = word.encode("utf-8", "replace")
        spelled = utf8.decode("latin-1").translate(BYTE_ALPHABET).encode()
        word_id = self._whole.find(spelled, crc32(spelled))
        if word_id >= 0:
            return (word_id,)
        byte_ids = self._byte_ids
        shared = self._shared
        return tuple([shared[token_id] for token_id in self._merge([byte_ids[b] for b in utf8])])

    def _find_alike(self, character: int) -> str:
        """Return the ASCII character that the regular expression treats like this one."""
        return chr(self._alike[self._pages[character >> 8] << 8 | character & 0xFF] & _ASCII)

    def _compose(self, text: str) -> str:
        from unicodedata import is_normalized  # noqa: PLC0415

        if is_normalized("NFC", text):
            return text
        from embedder.core.fast_tokenizers.composition import compose  # noqa: PLC0415

        return compose(text, pages=self._pages, alike=self._alike)
