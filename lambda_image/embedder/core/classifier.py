"""Texts, and pairs of texts, to a score for each label: tokenize → plan → run, equal ones once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, TypeVar

from embedder.core import errors
from embedder.core.scorer import Scorer, Scores, longest_first, packed_pair

#: What `truncate` may be: an input over the limit is refused, or loses the end or the start of its
#: texts, of a pair as many tokens of the longer one first as transformers' `longest_first` does.
TRUNCATIONS = ("refuse", "right", "left")

_Cut = TypeVar("_Cut", str, list[int])


class Classifier(Scorer):
    """A model that gives a text, or a pair of texts, a score for each label."""

    task: ClassVar[str] = "classify"

    def classify(
        self,
        inputs: Sequence[str | tuple[str, str]],
        *,
        raw_scores: bool = False,
        truncate: str | None = None,
        deadline: float | None = None,
    ) -> Scores:
        """Score texts and pairs of texts, in any mixture; the scores are float32 [inputs, labels].

        `raw_scores` are logits, without the model's activation. `truncate` is one of `TRUNCATIONS`;
        None takes that of `load`. At the deadline, a `time.monotonic()`, the caller gives up.

        Raises:
            EmptyInputError: if there is no input, or a text has no tokens.
            InvalidFieldError: if an input is a pair, and the model's files do not say how its
                tokenizer makes one.
            InputTooLongError: if an input is over the limits and must not be truncated.
            OutOfTimeError: see `Engine.embed_request`.
            InferenceError: if the model gave no finite score; the message names the input.

        An error about one input has its `position`.
        """
        started = time.perf_counter()
        if not inputs:
            raise errors.EmptyInputError("must have at least one input.")
        how = truncate or self.truncate
        ids_by_text: dict[str, list[int]] = {}
        packed, characters = [], 0
        for position, classified in enumerate(inputs):
            texts = (classified,) if isinstance(classified, str) else classified
            for text in texts:
                characters += len(text)
                if text not in ids_by_text:
                    ids_by_text[text] = self._ids(text, how, position)
            packed.append(self._packed([ids_by_text[text] for text in texts], how, position))
        return self._scored(
            packed,
            "inputs",
            raw=raw_scores,
            characters=characters,
            started=started,
            deadline=deadline,
        )

    def warm(self, texts: Sequence[str] = ("warm",)) -> None:
        """See `LoadedModel`."""
        self.classify(texts, truncate="right")
        self.cache.clear()

    def _ids(self, text: str, how: str, position: int) -> list[int]:
        if len(text) > self.max_characters and how == "refuse":
            raise errors.InputTooLongError(
                f"has {len(text)} characters; at most {self.max_characters} are allowed.",
                position=position,
            )
        ids = self.tokenizer.encode(_cut(text, self.max_characters, how))
        if not ids:
            raise errors.EmptyInputError(
                "must hold text to classify; the tokenizer found no token in it.", position=position
            )
        return ids

    def _packed(self, texts: list[list[int]], how: str, position: int) -> tuple[bytes, int]:
        """Return the ids of a text or of a pair as the model takes them, cut to the limit."""
        scoring, tokenizer = self.scoring, self.tokenizer
        if len(texts) == 2 and not scoring.between:
            raise errors.InvalidFieldError(
                f"{self.manifest.model.name} takes single texts, because its tokenizer's files do "
                f"not say how to make a pair; found a pair at position {position}."
            )
        before, between, after = scoring.before, scoring.between, scoring.after
        if len(texts) == 1:
            before, between, after = tuple(tokenizer.prefix), (), tuple(tokenizer.suffix)
        specials = len(before) + len(between) + len(after)
        room = self.max_tokens - specials
        counts = [len(ids) for ids in texts]
        if sum(counts) > room:
            if how == "refuse":
                raise errors.InputTooLongError(
                    f"has {sum(counts) + specials} tokens, special tokens included; the model "
                    f"allows {self.max_tokens}.",
                    position=position,
                )
            lengths = longest_first(counts[0], counts[1], room) if len(counts) == 2 else (room,)
            texts = [_cut(ids, length, how) for ids, length in zip(texts, lengths, strict=True)]
        if len(texts) == 1:
            return packed_pair([*before, *texts[0], *after])
        ids = [*before, *texts[0], *between, *texts[1], *after]
        return packed_pair(ids, second=len(texts[1]) + len(after), second_type=scoring.second_type)


def _cut(value: _Cut, length: int, how: str) -> _Cut:
    """Return the start of a text or of its ids, or its end if the left is cut off."""
    return value[max(0, len(value) - length) :] if how == "left" else value[:length]
