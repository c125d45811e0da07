"""A query and passages to scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from embedder.core import errors
from embedder.core.scorer import Scorer, Scores, longest_first


class Reranker(Scorer):
    """A model that scores passages for a query; its rows are logits.

    `truncate` is `refuse`, or `right` for the model's own truncation. That of a call is `refuse`,
    `right` or `passage`: a pair over the limit is refused, loses the ends of both texts (the longer
    one first, as sentence-transformers and text-embeddings-inference do), or the end of its
    passage.
    """

    task: ClassVar[str] = "rerank"
    inputs = "passages"

    def _configure(self, truncate: str, max_characters: int) -> None:
        super()._configure(truncate, max_characters)
        self.truncate = "refuse" if truncate == "refuse" else self.scoring.truncation
        prefix = self.scoring.passage_prefix
        # A space at its end becomes part of the passage's first word.
        self._prefix_tokens = len(self.tokenizer.encode(prefix.rstrip())) if prefix else 0

    def rerank(self, query: str, passages: Sequence[str], **options: Any) -> Scores:
        """Score 1 to `MAX_INPUTS` passages for one query, with the options of `predict`."""
        return self.predict([(query, passage) for passage in passages], **options)

    def predict(self, inputs: Sequence[str | tuple[str, str]], **options: Any) -> Scores:
        """Score pairs of a query and a passage; see `Scorer`. With one label it is [passages].

        A model with a template always keeps the whole query. With `max_passage_tokens`, a passage
        is first cut to this many tokens of its own, whatever `truncate` says. The `position` of an
        error is among the passages, or None for the query; a query that leaves no room for a
        passage is an InputTooLongError.
        """
        scored = super().predict(inputs, **options)
        if len(self.scoring.labels) == 1:
            return scored._replace(scores=scored.scores[:, 0])
        return scored

    def warm(self, texts: Sequence[str] = ("warm",)) -> None:
        """See `LoadedModel`."""
        passages = [text[: self.max_characters] for text in texts]
        self.rerank("warm", passages, truncate="passage")
        self.cache.clear()

    def _ids(self, number: int, text: str, how: str, position: int, /, **options: Any) -> list[int]:
        scoring = self.scoring
        if number:
            ids = self._encode(text, how, position, prefix=scoring.passage_prefix)
            most = options.get("max_passage_tokens")
            return ids if most is None else ids[: self._prefix_tokens + most]
        ids = self._encode(text, "refuse" if how == "passage" else how, None)
        if scoring.query_prefix or scoring.query_suffix:
            bounded = text[: self.max_characters]
            ids = self.tokenizer.encode(scoring.query_prefix + bounded + scoring.query_suffix)
        return ids

    def _packed(self, texts: list[list[int]], how: str, position: int) -> tuple[bytes, int]:
        query_ids, passage_ids = texts
        specials = self._pair_specials
        room = self.max_tokens - specials
        if len(query_ids) + len(passage_ids) > room:
            if how == "refuse":
                raise errors.InputTooLongError(
                    f"has {len(query_ids) + len(passage_ids) + specials} tokens together with the "
                    f"query and the special tokens; the model allows {self.max_tokens}.",
                    name=f"passages[{position}]",
                    position=position,
                )
            if "passage" in (how, self.scoring.truncation):
                if len(query_ids) >= room:
                    raise errors.InputTooLongError(
                        f"has {len(query_ids) + specials} tokens with the special tokens, and "
                        f"leaves no room for a passage; the model allows {self.max_tokens} for "
                        "both.",
                        name="query",
                    )
                passage_ids = passage_ids[: room - len(query_ids)]
            else:
                query_length, passage_length = longest_first(len(query_ids), len(passage_ids), room)
                query_ids, passage_ids = query_ids[:query_length], passage_ids[:passage_length]
        return self._joined(query_ids, passage_ids)
