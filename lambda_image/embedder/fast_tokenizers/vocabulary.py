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

from embedder.fast_tokenizers.table_file import TableFile

__all__ = ["Parameters", "TokenIds", "TokenTexts", "read_parameters"]

_ID = (1 << 20) - 1


class Parameters(NamedTuple):
    """The parameters that every fast tokenizer gives the engine."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    vocabulary_size: int


def read_parameters(file: TableFile) -> Parameters:
    """Read the section `parameters`."""
    numbers = file.section("parameters").cast("I").tolist()
    middle = 2 + numbers[0]
    return Parameters(tuple(numbers[2:middle]), tuple(numbers[middle:-1]), numbers[-1])


class TokenTexts:
    """The text of each token, by id."""

    __slots__ = ("_offsets", "_text", "count")

    def __init__(self, file: TableFile) -> None:
        self._offsets = file.section("token_offsets").cast("I")
        self._text = file.section("token_text")
        self.count = len(self._offsets) - 1

    def utf8(self, token_id: int) -> bytes:
        """Return the token's text as UTF-8; empty where no token has this id."""
        if not 0 <= token_id < self.count:
            return b""
        return self._text[self._offsets[token_id] : self._offsets[token_id + 1]].tobytes()

    def __getitem__(self, token_id: int) -> str:
        text = self.utf8(token_id)
        if not text:
            raise ValueError(f"No token has the id {token_id}.")
        return text.decode()


class TokenIds:
    """The id of each token in one look-up section, by text."""

    __slots__ = ("_mask", "_slots", "_texts")

    def __init__(self, file: TableFile, name: str, texts: TokenTexts) -> None:
        self._slots = file.section(name).cast("I")
        self._mask = len(self._slots) - 1
        self._texts = texts

    def find(self, utf8: bytes, crc: int) -> int:
        """Return the id of the token with this text, whose CRC-32 is `crc`, or -1."""
        slots, mask = self._slots, self._mask
        slot = crc & mask
        while True:
            entry = slots[slot]
            if not entry:
                return -1
            if entry >> 20 == crc >> 20:
                token_id = (entry & _ID) - 1
                if self._texts.utf8(token_id) == utf8:
                    return token_id
            slot = slot + 1 & mask
