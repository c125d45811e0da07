"""The characters of the text that each token covers, as `tokenizers` reports them.

Imported on demand: embedding a text does not need it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from embedder.core.fast_tokenizers import Span
from embedder.core.fast_tokenizers.added_tokens import WHITE_SPACE
from embedder.core.fast_tokenizers.characters import Aligned

__all__ = ["byte_level_spans", "byte_pair_spans", "trimmed", "wordpiece_spans"]

#: White space, and a space as byte-level tokens spell it.
_TRIMMED = "".join(WHITE_SPACE) + "\u0120"


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


def byte_level_spans(
    ids: Iterable[int], tokens: Iterable[str], text: str, places: Iterable[int]
) -> Iterator[Span]:
    """Yield the spans of a text without added tokens; a part of a character has the whole span.

    Args:
        ids: the text's ids.
        tokens: their texts, one character for each byte.
        text: the normalized text.
        places: the place in the text as it was that each character comes from.
    """
    of_bytes = [
        place
        for character, place in zip(text, places, strict=True)
        for _ in character.encode("utf-8", "replace")
    ]
    start = 0
    for token_id, token in zip(ids, tokens, strict=True):
        stop = start + len(token)
        yield Span(token_id, of_bytes[start], of_bytes[stop - 1] + 1)
        start = stop


def trimmed(spans: Iterable[Span], texts: Iterable[str], *, prefix_space: bool) -> list[Span]:
    """Return the spans without the white space around tokens, as GPT-2's post-processor does it.

    Args:
        spans: of the whole text, in its order.
        texts: the tokens as the vocabulary spells them; of an added token, its text with the white
            space that it took along.
        prefix_space: whether a token at the text's beginning keeps one space, which is not the
            text's own.
    """
    results = []
    for at, (span, text) in enumerate(zip(spans, texts, strict=True)):
        token_id, start, stop = span
        leading = len(text) - len(text.lstrip(_TRIMMED))
        trailing = len(text) - len(text.rstrip(_TRIMMED))
        if leading == 1 and prefix_space and (at == 0 or start == 0):
            leading = 0
        start = min(start + leading, stop)
        if stop >= trailing:
            stop = max(stop - trailing, start)
        results.append(Span(token_id, start, stop))
    return results


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
