"""Blocks to chunks: pieces at headings, paragraphs, lines and sentences, measured in tokens."""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate, chain, groupby, islice
from typing import NamedTuple
from zlib import crc32

from embedder.core.errors import InvalidFieldError
from embedder.core.search import HEADING_SEPARATOR, passage
from embedder.core.tokenization import RequestTokenizer
from jobs.documents.document import VISIBLE, Block, Chunk, RefusedDocumentError

_DEFAULT_TOKENS = 256
_DEFAULT_OVERLAP = 32
_LEAST_TOKENS = 8
#: Bytes of a chunk in UTF-8. As JSON, it fits the 40 KB of metadata that S3 Vectors takes for a
#: vector.
_MAX_BYTES = 16 * 1024
#: Lines and sentences of a paragraph: each takes memory, and a count of its tokens.
_MAX_UNITS = 2_000_000
#: Characters of a chunk's headings.
_MAX_HEADINGS = 512
#: The end of a line, with the blank lines after it; the indentation belongs to the next line.
_LINE_END = re.compile(r"(\n(?:\s*\n)?)")
_BLANK_LINES = re.compile(r"\s*\n")
#: The white space after a sentence; Chinese and Japanese ones have none.
_SENTENCE_END = re.compile(
    r"((?<=[.!?…।؟۔])\s+|(?<=[.!?…][\"'”’»)])\s+|(?<=[。！？])(?![。！？」』”’）])\s*"
    r"|(?<=[。！？][」』”’）])\s*)"
)
_WHITE_SPACE = re.compile(r"\s+")


class _Unit(NamedTuple):
    """A text that is not divided between chunks: paragraph, line, sentence or a part of one."""

    text: str
    #: Its size in tokens, or in bytes where those are the tighter limit.
    weight: int
    #: Text between it and the unit before it, as in the document.
    joint: str
    #: Whether an overlap may have some of its lines or sentences.
    is_paragraph: bool = False


class _Group(NamedTuple):
    """Paragraphs that may share chunks, or the units of one that is longer than a chunk."""

    units: list[_Unit]
    opening: str = ""
    closing: str = ""
    #: The weight of both.
    weight: int = 0
    is_cut: bool = False
    #: Short paragraphs before the one that is cut.
    introduction: str = ""

    def enclosed(self, text: str) -> str:
        """Return a text between the opening and the closing."""
        return "\n".join(filter(None, (self.opening, text, self.closing)))


class Chunker:
    """Divides blocks into chunks for a model with this tokenizer and its limits.

    A chunk's text has at most `tokens`, overlap included: by default 256, or what the model takes.
    It is embedded below its headings, which get up to a quarter of what the model takes, the
    innermost first; the text gets what they leave. It starts with at most `overlap` tokens that the
    chunk before it ends with: by default 32, or half of `tokens`. Sizes that the model does not
    take are an `InvalidFieldError`.

    A chunk is a slice of the document, with its lines and their indentation: no character but white
    space is lost between two chunks. Only a line that is longer than a chunk is cut: after a
    sentence, else at white space, else anywhere. Each piece of a block has its opening and its
    closing lines, unless they are longer than half of a chunk, or a line fits one only without
    them.
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
        self._tokenizer = tokenizer
        self._prompt, self._room = prompt, room
        self._model_tokens = limits.max_tokens - len(tokenizer.prefix) - len(tokenizer.suffix)
        self._bytes = min(_MAX_BYTES, limits.max_characters)

    def chunks(self, blocks: Iterable[Block]) -> Iterator[Chunk]:
        """Yield the chunks of a document, in its order.

        A change moves only the cuts near it: see `_parts`. A paragraph that is longer than a chunk
        shares its first one with an introduction that fits an overlap, and none with others.
        """
        unknown = self._tokenizer.unknown
        above: tuple[str, ...] = ()
        shown: set[tuple[str, ...]] = set()
        packer = self._packer(above)
        for _, blocks_of_section in groupby(blocks, key=lambda block: block.section):
            section = list(blocks_of_section)  # all have its headings and its metadata
            headings = section[0].headings
            if headings != above:
                packer, above = self._packer(headings), headings
            # The first text below a heading that does not fit begins with it.
            paths = {headings[: depth + 1] for depth in range(len(headings))} - shown
            shown |= paths
            names = [path[-1] for path in sorted(paths, key=len)]
            if long := [name for name in names if name not in packer.headings]:
                section.insert(0, section[0]._replace(text="\n".join(long), opening="", closing=""))
            for group in packer.groups(section):
                piece = 0
                for text, ids in packer.packed(group):
                    if ids:
                        piece += group.is_cut
                        yield Chunk(
                            text,
                            packer.headings,
                            len(ids),
                            section[0].metadata,
                            unknown=0 if unknown is None else ids.count(unknown),
                            piece=piece,
                        )

    def _packer(self, headings: tuple[str, ...]) -> "_Packer":
        """Return what packs texts below these headings, or below the innermost that fit."""
        encode = self._tokenizer.encode
        while headings:
            # The text makes a difference to tokenizers of bytes, which join white space.
            front = self._prompt + passage(
                "a", {"headings": HEADING_SEPARATOR.join(headings)}
            ).removesuffix("a")
            tokens = len(encode(front + "a")) - len(encode(self._prompt + "a"))
            size = len(front.encode())
            fits = tokens <= self._room // 4 and size <= self._bytes // 4
            if fits and len(HEADING_SEPARATOR.join(headings)) <= _MAX_HEADINGS:
                break
            # Of the innermost one, the begin.
            shorter = headings[0][: len(headings[0]) * 3 // 4].rstrip()
            headings = headings[1:] or tuple(filter(None, [shorter]))
        else:
            front, tokens, size = self._prompt, 0, 0
        limit = min(self.settings[0], self._room - tokens)
        return _Packer(
            headings,
            front,
            encode=encode,
            tokens=limit,
            overlap=min(self.settings[1], limit // 2),
            model_tokens=self._model_tokens,
            size=self._bytes - size,
        )


class _Packer:
    """Packs texts of up to `tokens` tokens and `size` bytes, which are embedded after `front`.

    Together, they have up to `model_tokens`.
    """

    def __init__(
        self,
        headings: tuple[str, ...],
        front: str,
        *,
        encode: Callable[[str], list[int]],
        tokens: int,
        overlap: int,
        model_tokens: int,
        size: int,
    ) -> None:
        self.headings, self._front, self._encode = headings, front, encode
        self._tokens, self._overlap, self._model_tokens = tokens, overlap, model_tokens
        self._size = size

    def groups(self, blocks: Iterable[Block]) -> Iterator[_Group]:
        """Yield the groups of a section's blocks, no two of which share a chunk."""
        shared: list[_Unit] = []
        for block in blocks:
            text, opening, closing = (_stripped(text) for text in block[:1] + block[-2:])
            weight = self._weight(text)
            if weight > self._tokens:
                introduction = ""
                if sum(unit.weight for unit in shared) <= self._overlap:
                    introduction = _joined(shared)
                else:
                    yield _Group(shared)
                shared = []
                yield self._cut(text, opening, closing)._replace(introduction=introduction)
            elif text:
                shared.append(_Unit(text, weight, "\n\n", not (opening or closing)))
        if shared:
            yield _Group(shared)

    def packed(self, group: _Group) -> Iterator[tuple[str, list[int]]]:
        """Yield the texts of the chunks of a group, and their tokens."""
        room = self._tokens - group.weight
        # A header of half a chunk leaves no room for an overlap of the other half.
        most = min(self._overlap, room // 2)
        pending = deque(_parts(group.units, room - most))
        introduction, overlap = group.introduction, ""
        header = "" if group.closing else group.opening  # of a table; until a chunk has it
        while pending:
            units = pending.popleft()
            text = _joined(units)
            candidates = [group.enclosed(text)]
            if introduction:  # in the place of an overlap
                candidates.insert(0, f"{introduction}\n\n{candidates[0]}")
            elif overlap:
                candidates.insert(0, group.enclosed(overlap + units[0].joint + text))
            if len(units) == 1:
                candidates.append(text)
            for candidate in candidates:
                ids = self._encode(candidate)
                if len(candidate) < 2 or self._fits(candidate, ids):
                    if introduction and candidate is not candidates[0]:
                        yield introduction, self._encode(introduction)
                    if header and candidate == text:
                        yield header, self._encode(header)
                    yield candidate, ids
                    header = introduction = ""
                    overlap = self._tail(units, most)
                    break
            else:
                # The whole has more tokens than its parts together.
                pieces = units if len(units) > 1 else [*self._halves(*units[0][::2])]
                half = len(pieces) // 2
                pending.extendleft([pieces[half:], pieces[:half]])

    def _cut(self, text: str, opening: str, closing: str) -> _Group:
        weight = self._weight(f"{opening}\n{closing}") if opening or closing else 0
        if weight > self._tokens // 2:
            opening, closing, weight = "", "", 0
        inner = _stripped(text.removeprefix(opening).removesuffix(closing))
        all_units = (
            unit
            for line, joint in _divided(_LINE_END, inner, "\n")
            for unit in self._units(line, joint, _SENTENCE_END)
        )
        units = list(islice(all_units, _MAX_UNITS + 1))
        if len(units) > _MAX_UNITS:
            raise RefusedDocumentError(
                f"one of its paragraphs, lists or tables has more than {_MAX_UNITS:,} lines or "
                "sentences"
            )
        return _Group(units, opening, closing, weight, is_cut=True)

    def _units(self, text: str, joint: str, end: re.Pattern[str] | None = None) -> Iterator[_Unit]:
        """Yield a text, or its sentences if these end so, or parts of them, so that each fits."""
        weight = self._weight(joint + text)  # tokenizers of bytes count white space
        if weight > self._tokens:
            weight = self._weight(text)
        if weight <= self._tokens or len(text) < 2:
            yield _Unit(text, weight, joint)
        elif end:
            for sentence, white_space in _divided(end, text, joint):
                yield from self._units(sentence, white_space)
        else:
            yield from self._halves(text, joint)

    def _halves(self, text: str, joint: str) -> Iterator[_Unit]:
        """Yield the units of a text's halves, divided at white space if it has any."""
        middle = len(text) // 2
        after = _WHITE_SPACE.search(text, middle)
        start, stop = after.span() if after else (middle, middle)
        if after is None and len(words := text.rsplit(None, 1)) == 2:
            start, stop = len(words[0]), len(text) - len(words[1])
        begin = text[:start].rstrip()
        if begin:
            yield from self._units(begin, joint)
        yield from self._units(text[stop:], text[len(begin) : stop] if begin else joint)

    def _tail(self, units: list[_Unit], most: int) -> str:
        """Return the last lines or sentences with up to `most` tokens, but never a whole chunk."""
        tail = joint = ""
        for unit in reversed(units[1:] if most else []):
            pieces = [(unit.text, unit.joint)]
            if unit.is_paragraph:
                end = _LINE_END if "\n" in unit.text else _SENTENCE_END
                pieces = list(_divided(end, unit.text, unit.joint))
            for piece, own_joint in reversed(pieces):
                longer = piece + joint + tail
                if self._weight(longer) > most:
                    return tail
                tail, joint = longer, own_joint
        return tail

    def _fits(self, text: str, ids: list[int]) -> bool:
        return (
            len(ids) <= self._tokens
            and len(text.encode()) <= self._size
            and not (self._front and len(self._encode(self._front + text)) > self._model_tokens)
        )

    def _weight(self, text: str) -> int:
        size = len(text.encode())
        in_bytes = -(-size * self._tokens // self._size)
        # A text that is too long anyway is not tokenized.
        return in_bytes if size > self._size else max(in_bytes, len(self._encode(text)))


def _stripped(text: str) -> str:
    """Return a text without blank lines at its ends, and with the indentation of its first line."""
    text = text.translate(VISIBLE).rstrip()
    blank = _BLANK_LINES.match(text)
    return text[blank.end() :] if blank else text


def _divided(end: re.Pattern[str], text: str, joint: str) -> Iterator[tuple[str, str]]:
    """Yield the lines or sentences of a text, each with the white space before it.

    `joint` is that before the first one.
    """
    start = 0
    for match in chain(end.finditer(text), [None]):
        stop, following = match.span() if match else (len(text), len(text))
        stripped = text[start:stop].rstrip()
        if stripped:
            yield stripped, joint
            joint = ""
        joint += text[start + len(stripped) : following]
        start = following


def _joined(units: list[_Unit]) -> str:
    text = "".join(unit.joint + unit.text for unit in units)
    return text[len(units[0].joint) :] if units else ""


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
