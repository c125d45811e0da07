"""Texts with a given number of tokens."""

import random
import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from model_compiler.fidelity import measure

__all__ = ["Texts"]

_WORDS = Path(measure.__file__).with_name("documents.txt")


class Texts:
    """Create texts of English words; the contenders tokenize them.

    Args:
        tokenizer: The model's `tokenizer.json`.
    """

    def __init__(self, tokenizer: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._words = sorted(set(re.findall("[a-z]{2,10}", _WORDS.read_text(encoding="utf-8"))))

    def text(self, tokens: int, seed: int) -> str:
        """Return a text with this number of tokens, special tokens included."""
        source = random.Random(f"{tokens} {seed}")  # noqa: S311 - not a secret
        text = ""
        while (missing := tokens - self._count(text)) > 0:
            # A word has several tokens in a small vocabulary. Add few, and one that fits last.
            words = [source.choice(self._words) for _ in range(max(1, missing // 4))]
            longer = f"{text} {' '.join(words)}".strip()
            if self._count(longer) <= tokens:
                text = longer
            elif missing < 4:
                text = f"{text} a".strip()
        return text

    def batch(self, lengths: Sequence[int]) -> tuple[list[str], list[list[int]]]:
        """Return one request with a text of each length, and no token ids."""
        return [self.text(length, seed) for seed, length in enumerate(lengths)], []

    def _count(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)
