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
from typing import ClassVar

from embedder.core import errors
from embedder.http.apis import native
from embedder.http.apis.fields import InputsType, truncate_field
from embedder.http.apis.openai import InfinityModels, OpenAI
from embedder.http.apis.operation import Alternative, Api, Call, Operation, is_given, json_response
from embedder.http.apis.scores import RAW_SCORES, Predict, ScoreInfo, ScoringOperation
from embedder.http.http_types import Request, Response
from embedder.http.json_types import Choice, Field, Integer, Object, String, parse_object

_TOP_K = Field(
    "top_k", Integer(1, 1_000_000), "The most labels to return, of however many; all by default."
)


class InfinityClassify(ScoringOperation):
    """`{"input": […]}` → `{"object": "classify", "data": [[{"score", "label"}]], …}`."""

    api: type[Api] = OpenAI
    name = "infinity_classify"
    summary = "Label texts, with infinity's API."

    def fields(self) -> tuple[Field, ...]:
        return (
            Field("input", InputsType(self.text, single=False), "The texts.", required=True),
            Field("model", String(256), "Any name: one model is served, and the answer names it."),
            RAW_SCORES,
            truncate_field(self.scorer),
        )

    def respond(self, call: Call, /) -> Response:
        scores = self.score(call, call.values["input"].texts, field="input")
        tokens = sum(scores.work.tokens)
        return self.answer(
            {
                "id": call.record.id,
                "object": "classify",
                "created": int(time.time()),
                "model": self.scorer.manifest.model.name,
                "data": self.labeled(scores),
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            },
            scores,
        )


class Classify(ScoringOperation):
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
            truncate_field(self.scorer),
        )

    def respond(self, call: Call, /) -> Response:
        field, inputs = native.given_texts(call.values)
        scores = self.score(call, inputs.texts or (), field=field, is_list=inputs.is_list)
        labels = self.labeled(scores, call.values["top_k"])
        content = {"classifications": labels} if inputs.is_list else {"classification": labels[0]}
        return self.answer({**content, "tokens": sum(scores.work.tokens)}, scores)


class HuggingFaceClassify(ScoringOperation):
    """`{"inputs": "a", "parameters": {"top_k": …}}` → `[[{"score", "label"}]]`."""

    name = "hugging_face_classify"
    summary = "Label a text, for Hugging Face's InferenceClient."
    truncate_hint = "Set truncate of the function, or send the text to POST /classify."

    def fields(self) -> tuple[Field, ...]:
        functions = Choice(("sigmoid", "softmax", "none"))
        parameters = (
            Field("function_to_apply", functions, "From logits to scores; the model's if null."),
            _TOP_K,
        )
        return (
            Field("inputs", self.text, "The text to label.", required=True),
            Field("parameters", Object(parameters), "How to label it.", required=True),
        )

    def respond(self, call: Call, /) -> Response:
        parameters = call.values["parameters"]
        scores = self.score(call, [call.values["inputs"]], field="inputs", is_list=False)
        if function := parameters["function_to_apply"]:
            activation = "identity" if function == "none" else function
            applied = self.scorer.activated(scores.work.vectors, activation)
            scores = scores._replace(scores=applied)
        return json_response(
            self.labeled(scores, parameters["top_k"]), headers=self.headers(scores, call)
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
                    f"{self.scorer.manifest.kind}, which labels it at POST /classify.",
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
