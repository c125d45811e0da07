"""What the routes of a reranker and of a classifier share: scores, labels, and the description."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from embedder.core import errors
from embedder.core.scorer import MAX_INPUTS, Scorer, Scores
from embedder.http.apis.fields import TextType, truncation, truncation_fields
from embedder.http.apis.operation import Api, Call, Described, Operation, json_response
from embedder.http.apis.tei import Tei, described_model, timing_headers
from embedder.http.http_types import Response
from embedder.http.json_types import Boolean, Field, JsonType

Input = str | tuple[str, str]
RAW_SCORES = Field(
    "raw_scores", Boolean(), "Return the model's logits, without its activation.", default=False
)


class ScoringOperation(Operation):
    """An operation of a model that gives scores."""

    api: type[Api] = Tei

    @cached_property
    def scorer(self) -> Scorer:
        """The model."""
        scorer = self.model.loaded
        assert isinstance(scorer, Scorer)  # noqa: S101 - for mypy: the routes of its task say so
        return scorer

    @cached_property
    def text(self) -> TextType:
        """The type of a text."""
        return TextType(self.scorer.max_characters)

    def score(
        self,
        call: Call,
        inputs: Sequence[Input],
        *,
        field: str,
        query_field: str = "query",
        is_list: bool = True,
        **options: Any,
    ) -> Scores:
        """Score inputs as the call's options say, and these of `predict`; note it in the record.

        Errors name `field`, which has the input or a list of them, or `query_field`.
        """
        options = {"raw": call.values.get("raw_scores", False), **options}
        if "truncate" in call.values:
            options.setdefault("truncate", truncation(call.values))
        try:
            scores = self.scorer.predict(inputs, deadline=call.request.deadline, **options)
        except errors.InputError as error:
            if error.position is None:  # no truncation helps such a query
                raise error.named(query_field, field=query_field) from None
            name = f"{field}[{error.position}]" if is_list else field
            hint = self.truncate_hint if isinstance(error, errors.InputTooLongError) else ""
            raise error.named(name, field=field, hint=hint) from None
        except errors.BatchTooLargeError as error:
            error.field = field
            raise
        call.record.embeddings = scores.work
        return scores

    def labeled(self, scores: Scores, top: int | None = None) -> list[list[dict[str, Any]]]:
        """Return each input's labels with their scores, the highest first, at most `top` each."""
        labels = self.scorer.scoring.labels
        # By the logits, as `Scores.best_first`.
        orders = np.argsort(-scores.work.vectors, axis=1, kind="stable")[:, :top]
        rows = scores.scores.reshape(scores.work.vectors.shape)
        return [
            [{"score": float(row[number]), "label": labels[number]} for number in order]
            for row, order in zip(rows, orders, strict=True)
        ]

    def answer(self, content: dict[str, Any], scores: Scores) -> Response:
        """Return an object with the space of the scores, which is in a header too."""
        space_kind, space = self.scorer.manifest.space_kind, scores.work.vector_space
        return json_response(
            {**content, f"{space_kind}_space": space}, headers={f"x-{space_kind}-space": space}
        )

    def headers(self, scores: Scores, call: Call) -> dict[str, str]:
        """Return TEI's headers, with the space of the scores."""
        return timing_headers(scores.work, call, self.scorer.manifest.space_kind)


class PredictType(JsonType):
    """TEI's inputs: a text, a list of one or two texts, or a batch of such lists.

    A reranker takes pairs only.
    """

    def __init__(self, text: TextType, *, pairs: bool) -> None:
        self._text, self._least = text, 2 if pairs else 1

    @property
    def allowed(self) -> str:
        texts = (
            "a string, a list of one or two strings"
            if self._least == 1
            else "a list of two strings"
        )
        return (
            f'{texts}, or a list that is not empty of such lists: [["a", "b"], ["c", "d"]]. A '
            "reranker scores pairs, and a classifier labels single texts"
        )

    @property
    def schema(self) -> dict[str, Any]:
        text = self._text.schema
        texts = {"type": "array", "items": text, "minItems": self._least, "maxItems": 2}
        batch = {"type": "array", "items": texts, "minItems": 1}
        return {"anyOf": [*[text] * (self._least == 1), texts, batch]}

    def check(self, value: object, name: str) -> tuple[list[Input], bool]:
        """Return the inputs, and whether they came as a batch."""
        if isinstance(value, str) and self._least == 1:
            return [self._text.check(value, name)], False
        if not isinstance(value, list) or not value:
            raise self.error(value, name)
        if isinstance(value[0], str):
            return [self._input(value, name)], False
        return [self._input(item, f"{name}[{index}]") for index, item in enumerate(value)], True

    def _input(self, value: object, name: str) -> Input:
        if not isinstance(value, list) or not self._least <= len(value) <= 2:
            raise self.error(value, name)
        first, *second = [
            self._text.check(text, f"{name}[{index}]") for index, text in enumerate(value)
        ]
        return (first, second[0]) if second else first


class Predict(ScoringOperation):
    """`{"inputs": "a"}` → `[{"score", "label"}]`, the highest first; a batch gives a list of it."""

    name = "tei_predict"
    summary = "Score pairs of texts by label, a classifier also single ones, in TEI's API."
    truncate_hint = 'Send "truncate": true to have it cut.'

    def fields(self) -> tuple[Field, ...]:
        pairs = self.scorer.task == "rerank"
        inputs = PredictType(self.text, pairs=pairs)
        return (
            Field("inputs", inputs, "What is scored.", required=True),
            *truncation_fields(self.scorer, pairs=pairs),
            RAW_SCORES,
        )

    def respond(self, call: Call, /) -> Response:
        inputs, is_batch = call.values["inputs"]
        scores = self.score(call, inputs, field="inputs", query_field="inputs", is_list=is_batch)
        labels = self.labeled(scores)
        return json_response(labels if is_batch else labels[0], headers=self.headers(scores, call))


class ScoreInfo(ScoringOperation, Described):
    """The model, its labels and all limits: TEI's fields, and ours."""

    name = "info"
    summary = "Return the model, its labels and all limits."

    def description(self) -> dict[str, Any]:
        manifest, scoring = self.scorer.manifest, self.scorer.scoring
        labels = {str(index): label for index, label in enumerate(scoring.labels)}
        ranks = manifest.task == "rerank" and len(labels) == 1
        return {
            **described_model(self.model, self.scorer),
            "model_type": {
                "reranker" if ranks else "classifier": {
                    "id2label": labels,
                    "label2id": {label: int(index) for index, label in labels.items()},
                }
            },
            "max_client_batch_size": MAX_INPUTS,
            f"{manifest.space_kind}_space": manifest.space,
            "activation": scoring.activation,
        }
