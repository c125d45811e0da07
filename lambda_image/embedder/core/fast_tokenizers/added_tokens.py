r"""Tokens that are found in the text as they are written, before anything else is done to it.

At each place the longest one wins, from left to right, as in `tokenizers`. One that strips takes
the white space on that side of it along.

Sections (`added` or another name before the dot):
    .text    UTF-8, the tokens one after another, those with the same first character together
    .ends    u32, where each one ends in `.text`
    .ids     u32
    .strips  u8, 1: takes the white space before it, 2: after it
    .groups  u32 triples: first character, first token, one past the last token
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from embedder.core.fast_tokenizers.table_file import Memo, TableFile

#: Unicode's White_Space, unchanged since version 6.3 and stable by its policy: Rust's `\s` and
#: `char::is_whitespace`. Python's own idea of a space has U+001C to U+001F besides.
WHITE_SPACE = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

#: More substrings than this take longer to look for than first characters do.
_OPENINGS = 24


class _Bucket(NamedTuple):
    """The tokens that may begin with two given characters, and the one that is the first alone."""

    #: Longest first.
    lengths: tuple[int, ...]
    #: Id and strips of each token, by its text.
    tokens: dict[str, tuple[int, int]]


class AddedTokens:
    """Finds the added tokens of one list in texts."""

    def __init__(self, file: TableFile, name: str) -> None:
        self._file = file
        self._name = name
        triples = file.section(f"{name}.groups").cast("I").tolist()
        self._ranges = {
            chr(triples[at]): (triples[at + 1], triples[at + 2]) for at in range(0, len(triples), 3)
        }
        #: The characters that added tokens begin with. A text without any of them has none.
        self.first_characters = tuple(self._ranges)
        # Read when a text first has the character: thousands of reserved tokens hardly ever occur.
        self._groups = Memo(self._read_group, limit=1 + len(self._ranges))

    def may_be_in(self, text: str) -> bool:
        """Say whether an added token may be in the text; False is certain."""
        # Not `any`: its generator takes longer than the search.
        for opening in self._openings:  # noqa: SIM110
            if opening in text:
                return True
        return False

    def pieces(self, text: str) -> Iterator[str | int]:
        """Take the text apart: texts between added tokens, and ids of those."""
        done = 0  # everything before is taken
        for candidate in self._candidates.finditer(text) if self.first_characters else ():
            start = candidate.start()
            if start < done:
                continue
            buckets = self._groups[text[start]]
            bucket = buckets.get(text[start : start + 2]) or buckets.get(text[start])
            if bucket is None:
                continue
            lengths, tokens = bucket
            for length in lengths:
                token = tokens.get(text[start : start + length])
                # At the text's end a slice is shorter than asked: only its own length counts.
                if token is not None and start + length <= len(text):
                    token_id, strips = token
                    stop = start + length
                    if strips:
                        start, stop = _strip(text, start, stop, strips, done)
                    if done < start:
                        yield text[done:start]
                    yield token_id
                    done = stop
                    break
        if done < len(text):
            yield text[done:]

    def encode(self, text: str, plain: Callable[[str], Sequence[int]]) -> list[int]:
        """Return the ids of the added tokens and, by `plain`, of the texts between them."""
        ids: list[int] = []
        for piece in self.pieces(text):
            if isinstance(piece, int):
                ids.append(piece)
            else:
                ids += plain(piece)
        return ids

    @cached_property
    def _openings(self) -> Collection[str]:
        """The first two characters of each token, or its only one; where these are few."""
        openings = {
            text[:2]
            for character in self.first_characters
            for bucket in self._groups[character].values()
            for text in bucket.tokens
        }
        return openings if len(openings) <= _OPENINGS else self.first_characters

    @cached_property
    def _candidates(self) -> re.Pattern[str]:
        return re.compile("[" + "".join(map(re.escape, self.first_characters)) + "]")

    def _read_group(self, character: str) -> dict[str, _Bucket]:
        begin, end = self._ranges[character]
        ends = self._file.section(f"{self._name}.ends").cast("I")
        ids = self._file.section(f"{self._name}.ids").cast("I")
        strips = self._file.section(f"{self._name}.strips")
        utf8 = self._file.section(f"{self._name}.text")
        buckets: dict[str, dict[str, tuple[int, int]]] = {}
        start = ends[begin - 1] if begin else 0
        for index in range(begin, end):
            text = bytes(utf8[start : ends[index]]).decode()
            buckets.setdefault(text[:2], {})[text] = (ids[index], strips[index])
            start = ends[index]
        alone = buckets.get(character, {})
        return {
            start: _Bucket(
                tuple(sorted({len(text) for text in (*tokens, *alone)}, reverse=True)),
                tokens | alone,
            )
            for start, tokens in buckets.items()
        }


def _strip(text: str, start: int, stop: int, strips: int, free: int) -> tuple[int, int]:
    if strips & 1:
        while start > free and text[start - 1] in WHITE_SPACE:
            start -= 1
    if strips & 2:
        while stop < len(text) and text[stop] in WHITE_SPACE:
            stop += 1
    return start, stop
