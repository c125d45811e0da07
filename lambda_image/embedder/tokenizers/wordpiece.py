"""BERT's WordPiece, over mapped tables: the same ids as `tokenizers`, from the first millisecond.

A text is cut at white space. What lies between is normalised, split at punctuation and Chinese
characters, and each word is taken apart greedily into the longest tokens that fit (Wu et al. 2016,
https://arxiv.org/abs/1609.08144). Both steps remember their results, so that a common word costs
one look-up.

Sections besides those of `vocabulary`, `characters`, `reordering` and `added_tokens`:
    token_slots  u32, a power of two: open addressing by CRC-32 of the token's UTF-8; 0 is free,
                 else the id + 1
    continuation UTF-8: what tokens inside a word begin with, `##`
    odd_spaces   UTF-8: characters that Python splits at and this tokenizer does not
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from embedder.tokenizers import Span
from embedder.tokenizers.added_tokens import AddedTokens
from embedder.tokenizers.characters import REORDERED, Aligned, character_table
from embedder.tokenizers.memo import WordMemo
from embedder.tokenizers.table_file import TableFile
from embedder.tokenizers.vocabulary import TokenTexts, read_parameters

if TYPE_CHECKING:
    from embedder.tokenizers.reordering import Reordering

__all__ = ["WordPiece"]

#: Entries; about 4 MB when full.
_REMEMBERED = 1 << 14


class WordPiece:
    """A WordPiece tokenizer that the compiler wrote into one file.

    Raises:
        ArtifactError: if the file cannot be read or was changed; from any method.
    """

    def __init__(self, path: Path) -> None:
        self._file = file = TableFile(path)
        parameters = read_parameters(file)
        self.prefix = parameters.prefix
        self.suffix = parameters.suffix
        self.vocabulary_size = parameters.vocabulary_size
        self._unknown = (parameters.unknown,)
        self._longest_word = parameters.longest_word
        self._longest_token = parameters.longest_token
        self._texts = TokenTexts(file)
        self._slots = file.section("token_slots").numbers("I")
        self._continuation = file.section("continuation").checked().tobytes()
        self._added = AddedTokens(file, "added")
        self._odd_spaces = file.section("odd_spaces").checked().tobytes().decode()
        self._rare = (*self._added.first_characters, *self._odd_spaces)
        self._characters = character_table(file)
        self._chunks = WordMemo(self._encode_chunk, limit=_REMEMBERED)
        self._words = WordMemo(self._encode_word, limit=_REMEMBERED)

    def encode(self, text: str) -> list[int]:
        """Return the text's own ids: no special tokens around them, no truncation."""
        for character in self._rare:
            if character in text:
                return self._encode_with_added(text)
        ids: list[int] = []
        chunks = self._chunks
        for chunk in text.split():
            ids += chunks[chunk]
        return ids

    def spans(self, text: str) -> list[Span]:
        """Return the same ids with the characters that each stands for; slower than `encode`."""
        from embedder.tokenizers.spans import wordpiece_spans  # noqa: PLC0415

        spans: list[Span] = []
        for part, start, stop in self._added.pieces(text):
            if isinstance(part, int):
                spans.append(Span(part, start, stop))
                continue
            spans += wordpiece_spans(
                self._aligned(part, start),
                encode_word=self._words.__getitem__,
                token=self.token,
                continuation=len(self._continuation.decode()),
            )
        return spans

    def token(self, token_id: int) -> str:
        """Return the token's text as the vocabulary spells it.

        Raises:
            ValueError: if no token has this id.
        """
        return self._texts[token_id]

    def _encode_with_added(self, text: str) -> list[int]:
        ids: list[int] = []
        for part, _, _ in self._added.pieces(text):
            if isinstance(part, int):
                ids.append(part)
                continue
            odd = any(character in part for character in self._odd_spaces)
            for chunk in part.split(" ") if odd else part.split():
                ids += self._chunks[chunk]
        return ids

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        normal = self._normalize(chunk)
        if " " not in normal:
            return self._words[normal] if normal else ()
        ids: list[int] = []
        for word in normal.split(" "):
            if word:
                ids += self._words[word]
        return tuple(ids)

    def _normalize(self, text: str) -> str:
        """Normalise the text and put spaces between its words."""
        normal = text.translate(self._characters)
        if REORDERED in normal:
            return "".join(character for character, _ in self._reordering.align(text))
        return normal

    def _aligned(self, text: str, start: int) -> Iterator[Aligned]:
        """Normalise like `_normalize` and tell where each character comes from."""
        if REORDERED in text.translate(self._characters):
            for character, place in self._reordering.align(text):
                yield character, start + place
            return
        for place, source in enumerate(text, start):
            for character in self._characters[ord(source)]:
                yield character, place

    @cached_property
    def _reordering(self) -> "Reordering":
        from embedder.tokenizers.reordering import Reordering  # noqa: PLC0415

        return Reordering(self._file, self._characters)

    def _encode_word(self, word: str) -> tuple[int, ...]:
        size = len(word)
        if size > self._longest_word:
            return self._unknown
        whole = self._find(word.encode())
        if whole >= 0:
            return (whole,)
        ids = []
        start = 0
        prefix = b""
        while start < size:
            for stop in range(min(size, start + self._longest_token), start, -1):
                token_id = self._find(prefix + word[start:stop].encode())
                if token_id >= 0:
                    break
            else:
                return self._unknown
            ids.append(token_id)
            start = stop
            prefix = self._continuation
        return tuple(ids)

    def _find(self, token: bytes) -> int:
        """Return the id of the token with this text, or -1."""
        slots = self._slots
        mask = len(slots) - 1
        slot = crc32(token) & mask
        while entry := slots[slot]:
            if self._texts.utf8(entry - 1) == token:
                return entry - 1
            slot = (slot + 1) & mask
        return -1
