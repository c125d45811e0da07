"""The characters of the text that each token of a Unigram covers, as `tokenizers` reports them.

Imported on demand: embedding a text does not need it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from embedder.core.fast_tokenizers import Span
from embedder.core.fast_tokenizers.added_tokens import WHITE_SPACE, AddedTokens
from embedder.core.fast_tokenizers.unigram_text import COLLAPSED, SPACE, UnigramText

__all__ = ["unigram_spans"]

#: A character of the normalized text, and the place in the text that it has: from, to.
_Aligned: TypeAlias = tuple[str, int, int]


def unigram_spans(
    part: str,
    *,
    start: int,
    steps: UnigramText,
    added: AddedTokens,
    segments: Callable[[str], Sequence[tuple[tuple[int, ...], int]]],
) -> Iterator[Span]:
    """Yield the spans of a part of a text.

    Args:
        part: The part, without added tokens that are matched before normalization.
        start: Where it begins in the whole text.
        steps: What normalizes and splits it.
        added: The tokens that are matched after normalization.
        segments: A piece to its ids, with the number of characters that each or each few cover.
    """
    aligned = _normalized(part, start, steps)
    normal = "".join([character for character, _, _ in aligned])
    for text, begin, stop in added.pieces(normal):
        if isinstance(text, int):
            yield Span(text, aligned[begin][1], aligned[stop - 1][2])
            continue
        for piece, place, prefixed in steps.pieces(text, first=not aligned[begin][1]):
            # A `▁` that was put in front has the place of the character after it.
            at = begin + place - prefixed
            for ids, length in segments(piece):
                first = aligned[max(at, begin + place)]
                last = aligned[max(at + length - 1, begin + place)]
                for token_id in ids:
                    yield Span(token_id, first[1], last[2])
                at += length


def _normalized(part: str, start: int, steps: UnigramText) -> list[_Aligned]:
    """Normalize like `UnigramText.normalize`, with the places of the characters."""
    options = steps.options
    aligned = [(character, at, at + 1) for at, character in enumerate(part, start)]
    if steps.map:
        aligned = list(_moved(aligned, steps.map.changes(part)))
    first, last = 0, len(aligned)
    while options.strip_left and first < last and aligned[first][0] in WHITE_SPACE:
        first += 1
    while options.strip_right and first < last and aligned[last - 1][0] in WHITE_SPACE:
        last -= 1
    aligned = aligned[first:last]
    if options.collapse:
        aligned = list(_collapsed(aligned, COLLAPSED[options.collapse]))
    if options.replace:
        aligned = [(SPACE if new == " " else new, at, stop) for new, at, stop in aligned]
    return aligned


def _moved(aligned: Sequence[_Aligned], changes: Sequence[tuple[str, int]]) -> Iterator[_Aligned]:
    """Give each new character the place of the old one that it replaces or comes after."""
    at = 0
    for character, change in changes:
        _, start, stop = aligned[at - 1 if change > 0 else at]
        if change <= 0:
            at += 1 - change
        yield character, start, stop


def _collapsed(aligned: Sequence[_Aligned], content: str) -> Iterator[_Aligned]:
    """Replace each run of spaces by one character, which has the place of the last."""
    run = 0
    for at, (character, start, stop) in enumerate(aligned, 1):
        run = run + 1 if character == " " else 0
        if run and at < len(aligned) and aligned[at][0] == " ":
            continue
        yield content if run > 1 else character, start, stop
