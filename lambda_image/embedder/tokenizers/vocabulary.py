"""The texts of the tokens and what surrounds a text: the tables that every fast tokenizer has.

Sections:
    parameters    u32: what `Parameters` lists
    token_offsets u32: where each id's text begins in `token_text`, and one more
    token_text    UTF-8; an id with an empty text does not exist
"""

from typing import NamedTuple

from embedder.tokenizers.table_file import TableFile

__all__ = ["Parameters", "TokenTexts", "read_parameters"]


class Parameters(NamedTuple):
    """The numbers that a tokenizer is made of, in the order of their section."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]
    vocabulary_size: int
    #: WordPiece's: the unknown token, and how long a word and a token may be, in characters.
    unknown: int
    longest_word: int
    longest_token: int


def read_parameters(file: TableFile) -> Parameters:
    """Read the section `parameters`."""
    numbers = file.section("parameters").numbers("I").tolist()
    before, after = numbers[0], numbers[1]
    ends = 2 + before, 2 + before + after
    return Parameters(
        tuple(numbers[2 : ends[0]]), tuple(numbers[ends[0] : ends[1]]), *numbers[ends[1] :]
    )


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
        self._offset_bytes.check(4 * token_id, 4 * token_id + 8)
        start, stop = self._offsets[token_id], self._offsets[token_id + 1]
        self._text_bytes.check(start, stop)
        return self._text[start:stop].tobytes()

    def __getitem__(self, token_id: int) -> str:
        text = self.utf8(token_id)
        if not text:
            raise ValueError(f"No token has the id {token_id}.")
        return text.decode()
