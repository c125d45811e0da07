"""The texts of the tokens and what surrounds a text: the tables that every fast tokenizer has.

Sections:
    parameters    u32: how many special tokens come before a text, how many after it, their ids,
                  and one past the largest id
    token_offsets u32: where each id's text begins in `token_text`, and one more
    token_text    UTF-8; an id with an empty text does not exist

and, under a name of its own, a look-up of ids by text:
    …             u32, a power of two: open addressing by the low bits of the CRC-32 of the text's
                  UTF-8; 0 is free, else the CRC's upper 12 bits << 20 | the id + 1
"""

from typing import NamedTuple

from embedder.fast_tokenizers.table_file import BLOCK_SHIFT, TableFile

__all__ = ["Parameters", "TokenIds", "TokenTexts", "read_parameters"]

#: Of a u32's place among u32s to its block.
_U32_SHIFT = BLOCK_SHIFT - 2
_ID = (1 << 20) - 1


class Parameters(NamedTuple):
    """What every fast tokenizer tells the engine."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    vocabulary_size: int


def read_parameters(file: TableFile) -> Parameters:
    """Read the section `parameters`."""
    numbers = file.section("parameters").numbers("I").tolist()
    middle = 2 + numbers[0]
    return Parameters(tuple(numbers[2:middle]), tuple(numbers[middle:-1]), numbers[-1])


class TokenTexts:
    """The text of each token, by id."""

    __slots__ = ("_offset_bytes", "_offsets", "_text", "_text_bytes", "count")

    def __init__(self, file: TableFile) -> None:
        self._offset_bytes = file.section("token_offsets")
        self._offsets = self._offset_bytes.bytes.cast("I")
        self._text_bytes = file.section("token_text")
        self._text = self._text_bytes.bytes
        self.count = len(self._offsets) - 1

    def utf8(self, token_id: int) -> bytes:
        """Return the token's text as UTF-8; empty where no token has this id."""
        if not 0 <= token_id < self.count:
            return b""
        pending = self._offset_bytes.pending
        if pending[token_id >> _U32_SHIFT] or pending[token_id + 1 >> _U32_SHIFT]:
            self._offset_bytes.check(4 * token_id, 4 * token_id + 8)
        start, stop = self._offsets[token_id], self._offsets[token_id + 1]
        pending = self._text_bytes.pending
        if start < stop and (pending[start >> BLOCK_SHIFT] or pending[stop - 1 >> BLOCK_SHIFT]):
            self._text_bytes.check(start, stop)
        return self._text[start:stop].tobytes()

    def __getitem__(self, token_id: int) -> str:
        text = self.utf8(token_id)
        if not text:
            raise ValueError(f"No token has the id {token_id}.")
        return text.decode()


class TokenIds:
    """The id of each token in one look-up section, by text."""

    __slots__ = ("_bytes", "_mask", "_slots", "_texts")

    def __init__(self, file: TableFile, name: str, texts: TokenTexts) -> None:
        self._bytes = file.section(name)
        self._slots = self._bytes.bytes.cast("I")
        self._mask = len(self._slots) - 1
        self._texts = texts

    def find(self, utf8: bytes, crc: int) -> int:
        """Return the id of the token with this text, whose CRC-32 is `crc`, or -1."""
        slots, mask, pending = self._slots, self._mask, self._bytes.pending
        slot = crc & mask
        while True:
            if pending[slot >> _U32_SHIFT]:
                self._bytes.check(4 * slot, 4 * slot + 4)
            entry = slots[slot]
            if not entry:
                return -1
            if entry >> 20 == crc >> 20:
                token_id = (entry & _ID) - 1
                if self._texts.utf8(token_id) == utf8:
                    return token_id
            slot = slot + 1 & mask
