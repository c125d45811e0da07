"""The characters of the text that each token covers, as `tokenizers` reports them.

Imported on demand: embedding a text does not need it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from embedder.fast_tokenizers import Span
from embedder.fast_tokenizers.characters import Aligned

__all__ = ["byte_pair_spans", "wordpiece_spans"]


def wordpiece_spans(
    aligned: Iterable[Aligned],
    *,
    encode_word: Callable[[str], tuple[int, ...]],
    token: Callable[[int], str],
    continuation: int,
) -> Iterator[Span]:
    """Yield the spans of a text without added tokens.

    Args:
        aligned: the normalized text with spaces between its words, each character with the place in
            the text that it comes from.
        encode_word: a word to its ids.
        token: an id to its text.
        continuation: how many characters (`##`) mark a token inside a word.
    """
    for word, places in _words(aligned):
        ids = encode_word(word)
        if len(ids) == 1:
            # Also the unknown token, whose own text says nothing of the word's length.
            yield Span(ids[0], places[0], places[-1] + 1)
            continue
        start = 0
        for token_id in ids:
            stop = start + len(token(token_id)) - (continuation if start else 0)
            yield Span(token_id, places[start], places[stop - 1] + 1)
            start = stop


def byte_pair_spans(
    ids: Sequence[int],
    text: str,
    *,
    start: int,
    byte_ids: Iterable[int],
    token: Callable[[int], str],
) -> Iterator[Span]:
    """Yield the spans of a text without added tokens that has these ids.

    Args:
        ids: the text's ids.
        text: the text, with `▁` for spaces.
        start: where it begins in the whole text.
        byte_ids: the ids of bytes; all bytes of a character have its span.
        token: an id to its text.
    """
    of_bytes = frozenset(byte_ids)
    at = bytes_left = 0
    for token_id in ids:
        if token_id in of_bytes:
            bytes_left = (bytes_left or len(text[at].encode("utf-8", "replace"))) - 1
            yield Span(token_id, start + at, start + at + 1)
            at += not bytes_left
        else:
            size = len(token(token_id))
            yield Span(token_id, start + at, start + at + size)
            at += size


def _words(aligned: Iterable[Aligned]) -> Iterator[tuple[str, list[int]]]:
    word: list[str] = []
    places: list[int] = []
    for character, place in (*aligned, (" ", 0)):
        if character != " ":
            word.append(character)
            places.append(place)
        elif word:
            yield "".join(word), places
            word, places = [], []
