"""A query and passages to scores: tokenize each once → pair → plan → run, equal pairs once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

from embedder.core import errors
from embedder.core.scorer import Scorer, Scores, longest_first, packed_pair

#: The most passages of a request, as in Cohere's API.
MAX_PASSAGES = 10_000
#: What `truncate` may be: a pair over the limit is refused, loses the ends of both texts (the
#: longer one first, as sentence-transformers and text-embeddings-inference do), or the end of its
#: passage.
TRUNCATIONS = ("refuse", "longest_first", "passage")


class Reranker(Scorer):
    """A model that scores passages for a query; its rows are logits.

    `truncate` is `refuse`, or `right` for the model's own truncation.
    """

    task: ClassVar[str] = "rerank"

    def _configure(self, truncate: str, max_characters: int) -> None:
        super()._configure(truncate, max_characters)
        self.truncate = "refuse" if truncate == "refuse" else self.scoring.truncation
        prefix = self.scoring.passage_prefix
        # A space at its end becomes part of the passage's first word.
        self._prefix_tokens = len(self.tokenizer.encode(prefix.rstrip())) if prefix else 0

    def rerank(self, query: str, passages: Sequence[str], **options: Any) -> Scores:
        """Score 1 to `MAX_PASSAGES` passages for one query, with the options of `predict`."""
        return self.predict([(query, passage) for passage in passages], **options)

    def predict(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        truncate: str | None = None,
        max_passage_tokens: int | None = None,
        raw: bool = False,
        deadline: float | None = None,
    ) -> Scores:
        """Score 1 to `MAX_PASSAGES` pairs of a query and a passage.

        `truncate` is one of `TRUNCATIONS`; None takes the reranker's own. A model with a template
        always keeps the whole query. With `max_passage_tokens`, a passage is first cut to this many
        tokens of its own, whatever `truncate` says. `raw` scores are logits, without the model's
        activation. At the deadline, a `time.monotonic()`, the caller gives up.

        Raises:
            EmptyInputError: if the query or a passage has no tokens, or there is no passage.
            InputTooLongError: if a text or a pair is over the limits and must not be truncated, or
                the query leaves no room for a passage.
            BatchTooLargeError: if there are too many passages.
            OutOfTimeError: see `Engine.embed_request`.
            InferenceError: if the model gave no finite score; the message names the passage.

        An error about one text has its `position` among the passages, or None for the query.
        """
        started = time.perf_counter()
        if not pairs:
            raise errors.EmptyInputError("must hold at least one passage.", name="passages")
        if len(pairs) > MAX_PASSAGES:
            raise errors.BatchTooLargeError(
                f"At most {MAX_PASSAGES} passages are allowed in one request; found {len(pairs)}.",
                field="passages",
            )
        how = truncate or self.truncate
        queries: dict[str, list[int]] = {}
        passages: dict[str, list[int]] = {}
        packed, characters = [], 0
        for position, (query, passage) in enumerate(pairs):
            characters += len(query) + len(passage)
            query_ids = queries.get(query)
            if query_ids is None:
                query_ids = queries[query] = self._query(query, how)
            passage_ids = passages.get(passage)
            if passage_ids is None:
                passage_ids = self._passage(passage, how, position, max_passage_tokens)
                passages[passage] = passage_ids
            packed.append(self._pair(query_ids, passage_ids, how, position))
        scored = self._scored(
            packed, "passages", raw=raw, characters=characters, started=started, deadline=deadline
        )
        if len(self.scoring.labels) == 1:
            return scored._replace(scores=scored.scores[:, 0])
        return scored

    def warm(self, texts: Sequence[str] = ("warm",)) -> None:
        """See `LoadedModel`."""
        passages = [text[: self.max_characters] for text in texts]
        self.rerank("warm", passages, truncate="passage")
        self.cache.clear()

    def _query(self, text: str, how: str) -> list[int]:
        """Return a query's ids, with what the model's template puts around its text."""
        scoring = self.scoring
        own = self._encode(text, how, "query", None)
        if not own:
            raise errors.EmptyInputError(
                "must hold text; the tokenizer found no token in it.", name="query"
            )
        if scoring.query_prefix or scoring.query_suffix:
            bounded = text[: self.max_characters]
            own = self.tokenizer.encode(scoring.query_prefix + bounded + scoring.query_suffix)
        return own

    def _passage(self, text: str, how: str, position: int, most: int | None) -> list[int]:
        prefix = self.scoring.passage_prefix
        own = self._encode(text, how, f"passages[{position}]", position, prefix=prefix)
        # With a template's prefix, a blank passage has tokens too.
        if not text.strip() or not own:
            raise errors.EmptyInputError(
                "must hold text to score; the tokenizer found no token in it.",
                name=f"passages[{position}]",
                position=position,
            )
        return own if most is None else own[: self._prefix_tokens + most]

    def _encode(
        self, text: str, how: str, name: str, position: int | None, *, prefix: str = ""
    ) -> list[int]:
        if len(text) > self.max_characters:
            if how == "refuse" or (how == "passage" and position is None):
                raise errors.InputTooLongError(
                    f"has {len(text)} characters; at most {self.max_characters} are allowed.",
                    name=name,
                    position=position,
                )
            text = text[: self.max_characters]
        return self.tokenizer.encode(prefix + text)

    def _pair(
        self, query_ids: list[int], passage_ids: list[int], how: str, position: int
    ) -> tuple[bytes, int]:
        """Return a pair's ids and mask as bytes, and its number of tokens."""
        scoring = self.scoring
        specials = len(scoring.before) + len(scoring.between) + len(scoring.after)
        room = self.max_tokens - specials
        if len(query_ids) + len(passage_ids) > room:
            if how == "refuse":
                raise errors.InputTooLongError(
                    f"has {len(query_ids) + len(passage_ids) + specials} tokens together with the "
                    f"query and the special tokens; the model allows {self.max_tokens}.",
                    name=f"passages[{position}]",
                    position=position,
                )
            if how == "passage" or scoring.truncation == "passage":
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
        ids = [*scoring.before, *query_ids, *scoring.between, *passage_ids, *scoring.after]
        second = len(passage_ids) + len(scoring.after)
        return packed_pair(ids, second=second, second_type=scoring.second_type)
