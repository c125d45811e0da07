"""The steps from a text to the pieces that a Unigram takes apart: normalizing and splitting.

Sections besides those of `added_tokens` (`normal`, which are matched after normalization) and of
`character_map`, if the tokenizer has one:
    options  u32, in the order of `Options`
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from embedder.core.fast_tokenizers.added_tokens import WHITE_SPACE
from embedder.core.fast_tokenizers.character_map import CharacterMap
from embedder.core.fast_tokenizers.table_file import TableFile

__all__ = [
    "ALWAYS",
    "FIRST",
    "NEVER",
    "SPACE",
    "Options",
    "UnigramText",
]

#: Written for a space.
SPACE = "▁"
#: Which pieces get a `▁` in front: none, the one at the start of the text, each.
NEVER, FIRST, ALWAYS = range(3)
#: What becomes of two spaces or more, by `Options.collapse`; 0 leaves them alone.
_COLLAPSED = ("", " ", SPACE)
#: All characters of white space.
_BLANK = "".join(sorted(WHITE_SPACE))

# Compiled when a text first needs them: most words are a piece each.
_SPACES = " {2,}"
_WORDS = f"[^{_BLANK}]+"
_PIECES = f"{SPACE}[^{SPACE}]*|[^{SPACE}]+"


class Options(NamedTuple):
    """The steps, and the numbers of the model; flags are 0 or 1."""

    #: The id of the unknown token.
    unknown: int
    #: The longest token, in characters.
    longest: int
    #: Unknown text becomes the tokens of its bytes.
    bytes: int
    #: There is a character map, which is the first step.
    map: int
    #: White space is removed at the start, at the end.
    strip_left: int
    strip_right: int
    #: An index into `_COLLAPSED`.
    collapse: int
    #: The normalizer writes spaces as `▁`.
    replace: int
    #: The text is split at white space.
    words: int
    #: After that, spaces are written as `▁`, and the text is split before each.
    metaspace: int
    split: int
    #: `NEVER`, `FIRST` or `ALWAYS`, for `metaspace`.
    prefix: int


class UnigramText:
    """Normalizes and splits texts."""

    def __init__(self, file: TableFile) -> None:
        self.options = Options(*file.section("options").cast("I").tolist())
        self.map = CharacterMap(file) if self.options.map else None

    def normalize(self, text: str) -> str:
        """Return the text after the normalizer, which sees nothing but this part of a text."""
        options = self.options
        if self.map:
            text = self.map.normalize(text)
        if options.strip_left:
            text = text.lstrip(_BLANK)
        if options.strip_right:
            text = text.rstrip(_BLANK)
        if options.collapse:
            text = re.sub(_SPACES, _COLLAPSED[options.collapse], text)
        if options.replace:
            text = text.replace(" ", SPACE)
        return text

    def pieces(self, normal: str, *, first: bool) -> Iterator[str]:
        """Split a normalized text without added tokens in it.

        Args:
            normal: The text.
            first: Whether it is the start of the whole text.
        """
        if not self.options.words:
            yield from self._split(normal, first=first)
            return
        for word in re.findall(_WORDS, normal):
            yield from self._split(word, first=first)

    def _split(self, word: str, *, first: bool) -> list[str]:
        options = self.options
        if not options.metaspace:
            return [word]
        spaced = word.replace(" ", SPACE)
        prefixed = options.prefix == ALWAYS or (options.prefix == FIRST and first)
        if prefixed and spaced[0] != SPACE:
            spaced = SPACE + spaced
        return re.findall(_PIECES, spaced) if options.split else [spaced]
