"""Texts of about so many tokens, from common English words. No text of a user is sent."""

import random
from pathlib import Path

from embedding_client.protocol import embed_body

__all__ = ["Texts"]

#: Words that are one token each in the usual vocabularies (WordPiece, SentencePiece, BPE).
_WORDS = Path(__file__).with_name("words.txt").read_text("utf-8").split()
#: Tokens that a model adds at the beginning and at the end of a text.
_ADDED = 2


class Texts:
    """Makes the bodies of requests; one seed gives one sequence.

    Args:
        seed: The seed.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  (texts, not secrets)

    def body(self, tokens: int) -> bytes:
        """Return the body of `POST /` for one text, as the client sends it.

        Args:
            tokens: The tokens to aim at. The endpoint counts its own, with those of the prompt.
        """
        words = self._random.choices(_WORDS, k=max(1, tokens - _ADDED))
        return embed_body([" ".join(words)], {})
