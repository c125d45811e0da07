"""The routes of a classifier: the kit's own, infinity's, TEI's and Hugging Face's.

TEI's `/predict`, which it also serves at the root, is read from its source; see `tei`. A list of
one string or two is one input there, and a batch is a list of such lists. What differs on purpose:
scores have the model's own activation, where TEI takes the softmax of all models with several
labels. infinity's `/classify` is read from its client 0.0.78; its `input` tells it from the kit's
own `text` and `texts`. Hugging Face's InferenceClient sends `parameters` to the root, and takes the
labels out of a list.

The highest score is first; the logits decide between equal ones.

Imported on demand: no other model pays for it.
"""

import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from embedder.core import errors
from embedder.core.classifier import Classifier
from embedder.core.scorer import Scores
from embedder.http.apis import native
from embedder.http.apis.fields import (
    InputsType,
    TextType,
    truncate_field,
    truncation,
    truncation_fields,
)
from embedder.http.apis.openai import InfinityModels, OpenAI
from embedder.http.apis.operation import Alternative, Api, Call, Operation, is_given, json_response
from embedder.http.apis.scores import MAX_INPUTS, RAW_SCORES, ScoreInfo, labeled
from embedder.http.apis.tei import Tei, TeiEmbed, timing_headers
from embedder.http.http_types import Request, Response
from embedder.http.json_types import Choice, Field, Integer, JsonType, Object, String, parse_object

Input = str | tuple[str, str]
_TOP_K = Field("top_k", Integer(1, MAX_INPUTS), "The most labels to return; all by default.")


class ClassifyOperation(Operation):
    """An operation of a classifier."""

    @cached_property
    def classifier(self) -> Classifier:
        """The model."""
        classifier = self.model.loaded
        assert isinstance(classifier, Classifier)  # noqa: S101 - for mypy: as its task says
        return classifier

    @cached_property
    def text(self) -> TextType:
        """The type of a text."""
        return TextType(self.classifier.max_characters)

    def classify(
        self, call: Call, inputs: Sequence[Input], *, field: str, is_list: bool = True
    ) -> Scores:
        """Score the inputs of a field as the call's options say, and note it in the record."""
        if len(inputs) > MAX_INPUTS:
            raise errors.BatchTooLargeError(
                f'"{field}" must have at most {MAX_INPUTS} inputs; found {len(inputs)}.',
                field=field,
            )
        try:
            scores = self.classifier.classify(
                inputs,
                raw_scores=call.values.get("raw_scores", False),
                truncate=truncation(call.values) if "truncate" in call.values else None,
                deadline=call.request.deadline,
            )
        except errors.InputError as error:
            name = f"{field}[{error.position}]" if is_list else field
            hint = self.truncate_hint if isinstance(error, errors.InputTooLongError) else ""
            raise error.named(name, field=name, hint=hint) from None
        call.record.embeddings = scores.work
        return scores

    def labeled(self, scores: Scores, top: int | None = None) -> list[list[dict[str, Any]]]:
        """Return the labels of each input; see `labeled`."""
        return labeled(scores, self.classifier.scoring.labels, top)


class InfinityClassify(ClassifyOperation):
    """`{"input": […]}` → `{"object": "classify", "data": [[{"score", "label"}]], …}`."""

    api: type[Api] = OpenAI
    name = "infinity_classify"
    summary = "Label texts, with infinity's API."

    def fields(self) -> tuple[Field, ...]:
        return (
            Field("input", InputsType(self.text, single=False), "The texts.", required=True),
            Field("model", String(256), "Any name: one model is served, and the answer names it."),
            RAW_SCORES,
            truncate_field(self.classifier),
        )

    def respond(self, call: Call, /) -> Response:
        scores = self.classify(call, call.values["input"].texts, field="input")
        tokens, space = sum(scores.work.tokens), scores.work.vector_space
        return json_response(
            {
                "id": call.record.id,
                "object": "classify",
                "created": int(time.time()),
                "model": self.classifier.manifest.model.name,
                "data": self.labeled(scores),
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                "label_space": space,
            },
            headers={"x-label-space": space},
        )


class Classify(ClassifyOperation):
    """`{"text": …}` → `{"classification": [{"score", "label"}], …}`; `texts` gives a list."""

    api: type[Api] = native.Native
    name = "classify"
    summary = 'Label a text, or several. A body with "input" is answered as by infinity.'
    rule: ClassVar = native.TEXT_OR_TEXTS
    alternative = Alternative(InfinityClassify, "input", ("text", "texts"))

    def fields(self) -> tuple[Field, ...]:
        return (
            Field("text", self.text, "The text to label."),
            Field("texts", InputsType(self.text, single=False), "Several texts to label."),
            _TOP_K,
            RAW_SCORES,
            truncate_field(self.classifier),
        )

    def respond(self, call: Call, /) -> Response:
        field, inputs = native.given_texts(call.values)
        scores = self.classify(call, inputs.texts or (), field=field, is_list=inputs.is_list)
        labels, space = self.labeled(scores, call.values["top_k"]), scores.work.vector_space
        return json_response(
            {
                **(
                    {"classifications": labels} if inputs.is_list else {"classification": labels[0]}
                ),
                "tokens": sum(scores.work.tokens),
                "label_space": space,
            },
            headers={"x-label-space": space},
        )


class PredictType(JsonType):
    """TEI's inputs: a text, a list of one or two texts, or a batch of such lists."""

    allowed = (
        'a string, a list of one or two strings, or a batch of such lists: [["a"], ["b", "c"]]'
    )

    def __init__(self, text: TextType) -> None:
        self._text = text

    @property
    def schema(self) -> dict[str, Any]:
        listed = {"type": "array", "items": self._text.schema, "minItems": 1, "maxItems": 2}
        batch = {"type": "array", "items": listed, "minItems": 1}
        return {"anyOf": [self._text.schema, listed, batch]}

    def check(self, value: object, name: str) -> tuple[list[Input], bool]:
        """Return the inputs, and whether they came as a batch."""
        if isinstance(value, str):
            return [self._text.check(value, name)], False
        if not isinstance(value, list) or not value:
            raise self.error(value, name)
        if isinstance(value[0], str):
            return [self._input(value, name)], False
        return [self._input(item, f"{name}[{index}]") for index, item in enumerate(value)], True

    def _input(self, value: object, name: str) -> Input:
        if not isinstance(value, list) or len(value) not in {1, 2}:
            raise self.error(value, name)
        first, *second = [
            self._text.check(text, f"{name}[{index}]") for index, text in enumerate(value)
        ]
        return (first, second[0]) if second else first


class Predict(ClassifyOperation):
    """`{"inputs": "a"}` → `[{"score", "label"}]`, the highest first; a batch gives a list of it."""

    api: type[Api] = Tei
    name = "classify_predict"
    summary = "Label a text, a pair or a batch of both, in the API of text-embeddings-inference."
    truncate_hint = TeiEmbed.truncate_hint

    def fields(self) -> tuple[Field, ...]:
        return (
            Field("inputs", PredictType(self.text), "What to label.", required=True),
            *truncation_fields(self.classifier),
            RAW_SCORES,
        )

    def respond(self, call: Call, /) -> Response:
        inputs, is_batch = call.values["inputs"]
        scores = self.classify(call, inputs, field="inputs", is_list=is_batch)
        labels = self.labeled(scores)
        return json_response(
            labels if is_batch else labels[0], headers=timing_headers(scores.work, call, "label")
        )


class HuggingFaceClassify(ClassifyOperation):
    """`{"inputs": "a", "parameters": {"top_k": …}}` → `[[{"score", "label"}]]`."""

    api: type[Api] = Tei
    name = "hugging_face_classify"
    summary = "Label a text, for Hugging Face's InferenceClient."
    truncate_hint = "Set truncate of the function, or send the text to POST /classify."

    def fields(self) -> tuple[Field, ...]:
        functions = Choice(("sigmoid", "softmax", "none"))
        parameters = (
            Field(
                "function_to_apply", functions, "From logits to scores; the model's own if null."
            ),
            _TOP_K,
        )
        return (
            Field("inputs", self.text, "The text to label.", required=True),
            Field("parameters", Object(parameters), "How to label it.", required=True),
        )

    def respond(self, call: Call, /) -> Response:
        parameters = call.values["parameters"]
        scores = self.classify(call, [call.values["inputs"]], field="inputs", is_list=False)
        if function := parameters["function_to_apply"]:
            activation = "identity" if function == "none" else function
            applied = self.classifier.activated(scores.work.vectors, activation)
            scores = scores._replace(scores=applied)
        return json_response(
            self.labeled(scores, parameters["top_k"]),
            headers=timing_headers(scores.work, call, "label"),
        )


class ClassifyRoot(Predict):
    """TEI's `/predict` at the root, and Hugging Face's API where the body has `parameters`."""

    name = "classify_root"
    summary = 'Label as by POST /predict; with "parameters", for Hugging Face\'s InferenceClient.'
    alternative = Alternative(HuggingFaceClassify, "parameters", ())

    def chosen(self, request: Request) -> Operation:
        for field in ("text", "texts"):
            if is_given(request.body, field, instead_of=("inputs",)):
                raise errors.WrongModelError(
                    f'At this path an embedding model or a sparse encoder takes "{field}"; found '
                    f"{self.classifier.manifest.kind}, which labels it at POST /classify.",
                    field=field,
                )
        is_named = b'"parameters"' in request.body
        if is_named and parse_object(request.body).get("parameters") is None:
            return self
        return super().chosen(request)


#: Path → method → operation.
ROUTES: dict[str, dict[str, type[Operation]]] = {
    "/": {"POST": ClassifyRoot},
    "/health": {"GET": native.Health},
    "/classify": {"POST": Classify},
    "/predict": {"POST": Predict},
    "/info": {"GET": ScoreInfo},
    "/models": {"GET": InfinityModels},
}
