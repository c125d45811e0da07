"""Makes texts of a number of tokens from common English words."""

import random
from pathlib import Path

#: Words that are one token each in the usual vocabularies (WordPiece, SentencePiece, BPE).
_WORDS = Path(__file__).with_name("words.txt").read_text("utf-8").split()
#: Tokens that a model adds at the beginning and at the end of a text.
_ADDED = 2


class Texts:
    """A sequence of texts; one seed gives one sequence."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  (texts, not secrets)

    def text(self, tokens: int) -> str:
        """Return a text of about this many tokens, and of one word at least."""
        return " ".join(self._random.choices(_WORDS, k=max(1, tokens - _ADDED)))
