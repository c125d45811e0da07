"""The routes of a reranker: those of text-embeddings-inference (TEI), Cohere and Jina.

TEI's `/rerank` and `/predict` are read from its source; see `tei`. What differs on purpose, besides
what `tei` lists: a score has the model's own activation, as sentence-transformers gives it, where
TEI takes the sigmoid or the softmax of any model; `raw_scores` gives logits in both. Texts are cut
at their ends only. A model with several labels has no `/rerank`, and `/predict` takes pairs; a
single text is a classifier's. TEI ignores `top_n`, which litellm sends.

`/v1/rerank` is Cohere's and Jina's, `/v2/rerank` Cohere's: one body, and one answer with the fields
of both (https://docs.cohere.com/reference/rerank, https://api.jina.ai/redoc). As these two do, they
cut a document that does not fit, and never the query. What differs on purpose: a document is one
text, so `rank_fields` and `max_chunks_per_doc` are refused; `return_documents` is false by default,
as Cohere's is and Jina's is not.

Imported on demand: no embedding model pays for it.
"""

from typing import Any, ClassVar

from embedder.core import errors
from embedder.core.scorer import MAX_INPUTS
from embedder.http.apis import native
from embedder.http.apis.fields import InputsType, TextType, truncation_fields
from embedder.http.apis.openai import InfinityModels
from embedder.http.apis.operation import Alternative, Api, Call, Operation, json_response
from embedder.http.apis.scores import RAW_SCORES, Predict, ScoreInfo, ScoringOperation
from embedder.http.http_types import Response
from embedder.http.json_types import Boolean, Field, Integer, JsonType, Object, String

TOP_N = Field("top_n", Integer(1, MAX_INPUTS), "The most results to return; all by default.")


class Cohere(Api):
    """Errors as Cohere's `{"id", "message"}`, with Jina's `detail`, and the native fields."""

    name = "cohere"

    @staticmethod
    def error_body(error: errors.AnswerableError, _status: int, request_id: str) -> dict[str, Any]:
        return {
            "id": request_id,
            "message": error.message,
            "detail": error.message,
            "code": error.code,
            "field": error.field,
        }


class CohereRerank(ScoringOperation):
    """`{"query": …, "documents": […]}` → `{"results": [{"index", "relevance_score"}], …}`."""

    api: type[Api] = Cohere
    name = "cohere_rerank"
    version = "2"
    object_name = "list"
    summary = "Rank documents for a query, with Cohere's API."
    truncate_hint = 'Send "truncate": true to have the document cut.'

    rule: ClassVar = {
        "oneOf": [
            {"required": [name], "properties": {name: {"type": "array"}}}
            for name in ("documents", "texts")
        ]
    }

    def fields(self) -> tuple[Field, ...]:
        documents = DocumentsType(self.text)
        return (
            Field("model", String(256), "Any name: one model is served, and the answer names it."),
            Field("query", self.text, "What is searched for.", required=True),
            Field("documents", documents, "What is ranked."),
            Field("texts", documents, "Another name for documents."),
            TOP_N,
            Field("return_documents", Boolean(), "Also return each document.", default=False),
            Field(
                "max_tokens_per_doc",
                Integer(1, 1_000_000),
                "The most tokens of a document; its end is cut off. By default, as many as fit "
                "with the query.",
            ),
            Field(
                "truncate",
                Boolean(),
                "Cut the end of a document that does not fit with the query; false refuses it.",
                default=True,
            ),
            RAW_SCORES,
            Field("priority", Integer(0, 999), "Accepted and ignored."),
        )

    def respond(self, call: Call, /) -> Response:
        values = call.values
        if (values["documents"] is None) == (values["texts"] is None):
            raise errors.InvalidFieldError(
                'The body must have either "documents" or "texts", a list of documents; found '
                + ("neither." if values["texts"] is None else "both."),
                field="documents",
            )
        field = "documents" if values["texts"] is None else "texts"
        documents = values[field]
        scores = self.score(
            call,
            [(values["query"], document) for document in documents],
            field=field,
            truncate="passage" if values["truncate"] else "refuse",
            max_passage_tokens=values["max_tokens_per_doc"],
        )
        tokens, logits = sum(scores.work.tokens), scores.work.vectors[:, 0].tolist()
        # A score that is a logit itself needs no other.
        ranks = not (values["raw_scores"] or self.scorer.scoring.activation == "identity")
        return self.answer(
            {
                "id": call.record.id,
                "object": self.object_name,
                "model": self.scorer.manifest.model.name,
                "results": [
                    {
                        "index": index,
                        "relevance_score": score,
                        **({"logit": logits[index]} if ranks else {}),
                        **(
                            {"document": {"text": documents[index]}}
                            if values["return_documents"]
                            else {}
                        ),
                    }
                    for index, score in scores.best_first()[: values["top_n"]]
                ],
                "meta": {
                    "api_version": {"version": self.version},
                    "tokens": {"input_tokens": tokens},
                },
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            },
            scores,
        )


class FirstRerank(CohereRerank):
    """The same at `/v1/rerank`, which Jina's clients call too."""

    name = "cohere_rerank_v1"
    version = "1"
    summary = "Rank documents for a query, with Cohere's first API or Jina's."


class InfinityRerank(FirstRerank):
    """The same at `/rerank`, which infinity's, vLLM's and other clients call."""

    name = "infinity_rerank"
    object_name = "rerank"
    summary = "Rank documents for a query, in the shape of infinity's API."


class Rerank(ScoringOperation):
    """`{"query": …, "texts": […]}` → `[{"index", "score"}]`, the best first."""

    name = "tei_rerank"
    summary = (
        "Score texts for a query, in the API of text-embeddings-inference. A body with "
        "\"documents\" is answered in the shape of Cohere's and infinity's."
    )
    truncate_hint = Predict.truncate_hint
    alternative = Alternative(InfinityRerank, "documents", ("texts",))

    def fields(self) -> tuple[Field, ...]:
        texts = InputsType(self.text, single=False)
        return (
            Field("query", self.text, "What is searched for.", required=True),
            Field("texts", texts, "The texts to score.", required=True),
            *truncation_fields(self.scorer, pairs=True),
            RAW_SCORES,
            Field("return_text", Boolean(), "Also return each text.", default=False),
            TOP_N,
        )

    def respond(self, call: Call, /) -> Response:
        values = call.values
        texts = values["texts"].texts
        pairs = [(values["query"], text) for text in texts]
        scores = self.score(call, pairs, field="texts")
        return json_response(
            [
                {
                    "index": index,
                    "score": score,
                    **({"text": texts[index]} if values["return_text"] else {}),
                }
                for index, score in scores.best_first()[: values["top_n"]]
            ],
            headers=self.headers(scores, call),
        )


class DocumentsType(JsonType):
    """A list of texts, or of objects with a `text`."""

    allowed = 'a list that is not empty of strings, or of objects with the field "text"'

    def __init__(self, text: TextType) -> None:
        self._text = text
        self._object = Object((Field("text", text, "The document.", required=True),))

    @property
    def schema(self) -> dict[str, Any]:
        either = {"anyOf": [self._text.schema, self._object.schema]}
        return {"type": "array", "items": either, "minItems": 1}

    def check(self, value: object, name: str) -> list[str]:
        if not isinstance(value, list):
            raise self.error(value, name)
        if not value:
            raise errors.EmptyInputError(f"must be {self.allowed}; found an empty list.", name=name)
        return [
            self._document(entry, f"{name}[{position}]") for position, entry in enumerate(value)
        ]

    def _document(self, value: object, name: str) -> str:
        if isinstance(value, dict):
            return str(self._object.check(value, name)["text"])
        return self._text.check(value, name)


#: Path → method → operation; the router leaves out what a model with several labels cannot do.
ROUTES: dict[str, dict[str, type[Operation]]] = {
    "/health": {"GET": native.Health},
    "/rerank": {"POST": Rerank},
    "/predict": {"POST": Predict},
    "/v1/rerank": {"POST": FirstRerank},
    "/v2/rerank": {"POST": CohereRerank},
    "/info": {"GET": ScoreInfo},
    "/models": {"GET": InfinityModels},
}
