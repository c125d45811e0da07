"""Blocks to chunks: pieces at headings, paragraphs and sentences, measured in tokens."""

import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import accumulate, groupby
from typing import NamedTuple
from zlib import crc32

from embedder.core.errors import InvalidFieldError
from embedder.core.tokenization import RequestTokenizer
from jobs.documents.document import Block, Chunk

_DEFAULT_TOKENS = 256
_DEFAULT_OVERLAP = 32
_LEAST_TOKENS = 8
#: Bytes of a chunk in UTF-8. As JSON, it fits the 40 KB of metadata that S3 Vectors takes for a
#: vector.
_MAX_BYTES = 16 * 1024
_SENTENCE = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？])\s*|\n+")
#: Control characters, which JSON would write with six characters each.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


class _Unit(NamedTuple):
    text: str
    #: Its size in tokens, or in bytes where those are the tighter limit.
    weight: int
    #: Text between it and the unit before it.
    joint: str


class Chunker:
    """Divides blocks into chunks for a model with this tokenizer and its limits.

    A chunk has at most `tokens`, overlap included: by default 256, or what the model takes. It
    starts with at most `overlap` tokens that the chunk before it ends with: by default 32, or half
    of `tokens`. Sizes that the model does not take are an `InvalidFieldError`.
    """

    def __init__(
        self,
        request_tokenizer: RequestTokenizer,
        *,
        tokens: int | None = None,
        overlap: int | None = None,
    ) -> None:
        tokenizer, limits = request_tokenizer.tokenizer, request_tokenizer.limits
        #: The prompt of chunks; None for the model's default one.
        self.prompt = "document" if "document" in limits.prompts else None
        prompt = request_tokenizer.prompt_text(self.prompt)
        around = len(tokenizer.prefix) + len(tokenizer.suffix)
        around += len(tokenizer.encode(prompt)) if prompt else 0
        room = limits.max_tokens - around
        tokens = min(_DEFAULT_TOKENS, room) if tokens is None else tokens
        overlap = min(_DEFAULT_OVERLAP, tokens // 2) if overlap is None else overlap
        if not min(_LEAST_TOKENS, room) <= tokens <= room:
            raise InvalidFieldError(
                f"chunk_tokens must be from {min(_LEAST_TOKENS, room)} to {room}: the model takes "
                f"{limits.max_tokens} tokens, and special tokens and the prompt are {around}; "
                f"found {tokens}.",
                field="chunk_tokens",
            )
        if not 0 <= overlap <= tokens // 2:
            raise InvalidFieldError(
                f"overlap_tokens must be from 0 to half of chunk_tokens, {tokens // 2}; found "
                f"{overlap}.",
                field="overlap_tokens",
            )
        #: What other chunks depend on.
        self.settings = (tokens, overlap)
        self._encode = tokenizer.encode
        self._tokens, self._overlap = tokens, overlap
        self._bytes = min(_MAX_BYTES, limits.max_characters)

    def chunks(self, blocks: Iterable[Block]) -> Iterator[Chunk]:
        """Yield the chunks of a document, in its order.

        A change moves only the cuts near it: see `_parts`. A paragraph that is longer than a chunk
        shares none with others.
        """
        for _, section in groupby(blocks, key=lambda block: block.section):
            groups: list[list[_Unit]] = [[]]
            for block in section:  # all of a section have its headings
                units = list(self._units(block.text))
                if len(units) > 1:
                    groups += [units, []]
                else:
                    groups[-1] += units
            for text in (text for units in groups for text in self._packed(units)):
                tokens = len(self._encode(text))
                if tokens:
                    yield Chunk(text, block.headings, tokens, block.metadata)

    def _packed(self, units: list[_Unit]) -> Iterator[str]:
        pending, overlap = deque(_parts(units, self._tokens - self._overlap)), ""
        while pending:
            chunk = pending.popleft()
            text = _joined(overlap, chunk)
            if overlap and self._weight(text) > self._tokens:
                text = _joined("", chunk)
            if len(chunk) > 1 and self._weight(text) > self._tokens:
                # The whole has more tokens than its parts together.
                half = len(chunk) // 2
                pending.extendleft([chunk[half:], chunk[:half]])
                continue
            yield text
            overlap = self._tail(chunk)

    def _tail(self, units: list[_Unit]) -> str:
        """Return the last sentences of a chunk that fit the overlap, but never a whole chunk."""
        tail = ""
        for unit in reversed(units[1:] if self._overlap else []):
            for sentence in reversed(_SENTENCE.split(unit.text)):
                longer = f"{sentence} {tail}".strip()
                if self._weight(longer) > self._overlap:
                    return tail
                tail = longer
        return tail

    def _units(self, text: str) -> Iterator[_Unit]:
        """Yield a paragraph, or its sentences, or parts of those, each of which fits a chunk."""
        text = _CONTROL.sub("", text).strip()
        weight = self._weight(text)
        if weight <= self._tokens:
            if text:
                yield _Unit(text, weight, "\n\n")
            return
        joint = "\n\n"
        for sentence in filter(None, _SENTENCE.split(text)):
            for piece in self._pieces(sentence):
                yield _Unit(piece, self._weight(piece), joint)
                joint = " "

    def _pieces(self, text: str) -> Iterator[str]:
        text = text.strip()
        if self._weight(text) <= self._tokens or len(text) < 2:
            if text:
                yield text
            return
        middle = len(text) // 2
        space = text.rfind(" ", middle // 2, middle) + 1 or middle
        yield from self._pieces(text[:space])
        yield from self._pieces(text[space:])

    def _weight(self, text: str) -> int:
        size = len(text.encode())
        in_bytes = -(-size * self._tokens // self._bytes)
        # A text that is too long anyway is not tokenized.
        return in_bytes if size > self._bytes else max(in_bytes, len(self._encode(text)))


def _parts(units: list[_Unit], room: int) -> Iterator[list[_Unit]]:
    """Divide units into parts that fit, at places that depend on the text near them alone.

    A text that is longer than three parts is cut after each unit with the lowest checksum of all
    within two fifths of a part before and after it. Between two cuts the text is divided evenly.
    """
    if not units:
        return
    ends = list(accumulate(unit.weight for unit in units))
    cuts = []
    if ends[-1] > 3 * room:
        sums = [crc32(unit.text.encode()) for unit in units]
        reach, low, high = room * 2 // 5, 0, 0
        for position, (end, own) in enumerate(zip(ends, sums, strict=True)):
            while end - ends[low] > reach:
                low += 1
            while high < len(ends) and ends[high] - end <= reach:
                high += 1
            # Of equal ones, the first. Most are not the lowest, which a few of the others show.
            if all(sums[index] > own for index in range(low, position)) and all(
                sums[index] >= own for index in range(position + 1, high)
            ):
                cuts.append(position + 1)
    start = 0
    for stop in dict.fromkeys([*cuts, len(units)]):
        yield from _evenly(units[start:stop], room)
        start = stop


def _evenly(units: list[_Unit], room: int) -> Iterator[list[_Unit]]:
    ends = list(accumulate(unit.weight for unit in units))
    count = -(-ends[-1] // room)
    if count == 1 or len(units) == 1:
        yield units
        return
    middle = ends[-1] * (count // 2) / count
    stop = min(range(1, len(units)), key=lambda place: abs(ends[place - 1] - middle))
    yield from _evenly(units[:stop], room)
    yield from _evenly(units[stop:], room)


def _joined(overlap: str, units: list[_Unit]) -> str:
    text = "".join(unit.joint + unit.text for unit in units).strip()
    return f"{overlap}\n\n{text}" if overlap else text
