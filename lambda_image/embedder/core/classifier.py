"""Texts, and pairs of texts, to a score for each label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from embedder.core import errors
from embedder.core.scorer import Scorer, cut, longest_first, packed_pair


class Classifier(Scorer):
    """A model that gives a text, or a pair of texts, in any mixture, a score for each label.

    `truncate` is `refuse`, `right` or `left`: an input over the limit is refused, or loses the end
    or the start of its texts, of a pair as many tokens of the longer one first as transformers'
    `longest_first` does.
    """

    task: ClassVar[str] = "classify"

    def warm(self, texts: Sequence[str] = ("warm",)) -> None:
        """See `LoadedModel`."""
        self.predict(texts, truncate="right")
        self.cache.clear()

    def _packed(self, texts: list[list[int]], how: str, position: int) -> tuple[bytes, int]:
        scoring, prefix, suffix = self.scoring, self.tokenizer.prefix, self.tokenizer.suffix
        is_pair = len(texts) == 2
        if is_pair and not scoring.between:
            raise errors.InvalidFieldError(
                f"{self.manifest.model.name} takes single texts, because its tokenizer's files do "
                f"not say how to make a pair; found a pair at position {position}."
            )
        specials = self._pair_specials if is_pair else len(prefix) + len(suffix)
        room = self.max_tokens - specials
        counts = [len(ids) for ids in texts]
        if sum(counts) > room:
            if how == "refuse":
                raise errors.InputTooLongError(
                    f"has {sum(counts) + specials} tokens, special tokens included; the model "
                    f"allows {self.max_tokens}.",
                    position=position,
                )
            lengths = longest_first(counts[0], counts[1], room) if is_pair else (room,)
            texts = [cut(ids, length, how) for ids, length in zip(texts, lengths, strict=True)]
        return self._joined(*texts) if is_pair else packed_pair([*prefix, *texts[0], *suffix])
