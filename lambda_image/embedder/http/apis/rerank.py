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

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

from embedder.core import errors
from embedder.core.reranker import MAX_PASSAGES, Reranker
from embedder.core.scorer import Scores
from embedder.http.apis import native
from embedder.http.apis.fields import InputsType, TextType, truncation_fields
from embedder.http.apis.openai import InfinityModels
from embedder.http.apis.operation import Alternative, Api, Call, Operation, json_response
from embedder.http.apis.scores import RAW_SCORES, ScoreInfo, labeled
from embedder.http.apis.tei import Tei, timing_headers
from embedder.http.http_types import Response
from embedder.http.json_types import Boolean, Field, Integer, JsonType, Object, String


class ScoringOperation(Operation):
    """An operation of a reranker."""

    api: type[Api] = Tei
    truncate_hint = 'Send "truncate": true to have it cut.'

    @cached_property
    def reranker(self) -> Reranker:
        """The model."""
        reranker = self.model.loaded
        assert isinstance(reranker, Reranker)  # noqa: S101 - for mypy: the routes of its task say so
        return reranker

    def score(
        self,
        call: Call,
        pairs: Sequence[tuple[str, str]],
        *,
        field: str,
        query_field: str = "query",
        **options: Any,
    ) -> Scores:
        """Score pairs with these options of `Reranker.predict`, and note the result in the record.

        Errors name `field`, which has the list of passages, or `query_field`.
        """
        try:
            scores = self.reranker.predict(pairs, deadline=call.request.deadline, **options)
        except errors.InputError as error:
            if error.position is None:  # no truncation helps such a query
                raise error.named(query_field, field=query_field) from None
            hint = self.truncate_hint if isinstance(error, errors.InputTooLongError) else ""
            raise error.named(f"{field}[{error.position}]", field=field, hint=hint) from None
        except errors.BatchTooLargeError as error:
            error.field = field
            raise
        call.record.embeddings = scores.work
        return scores


TOP_N = Field("top_n", Integer(1, MAX_PASSAGES), "The most results to return; all by default.")


class Predict(ScoringOperation):
    """`{"inputs": ["a", "b"]}` or a list of such pairs → the score of each label, highest first."""

    name = "tei_predict"
    summary = "Score pairs of texts by label, in the API of text-embeddings-inference."

    def fields(self) -> tuple[Field, ...]:
        pairs = PairsType(TextType(self.reranker.max_characters))
        return (
            Field("inputs", pairs, "Two texts, or a list of such pairs.", required=True),
            *truncation_fields(self.reranker, pairs=True),
            RAW_SCORES,
        )

    def respond(self, call: Call, /) -> Response:
        pairs, is_list = call.values["inputs"]
        scores = self.score(
            call,
            pairs,
            field="inputs",
            query_field="inputs",
            truncate=_truncation(call.values),
            raw=call.values["raw_scores"],
        )
        labels = labeled(scores, self.reranker.scoring.labels)
        return json_response(
            labels if is_list else labels[0], headers=timing_headers(scores.work, call, "score")
        )


class PairsType(JsonType):
    """Two texts, or a list of such pairs."""

    allowed = (
        "a list of two strings, or a list that is not empty of such lists: a reranker scores "
        "pairs, and a classifier labels single texts"
    )

    def __init__(self, text: TextType) -> None:
        self._text = text

    @property
    def schema(self) -> dict[str, Any]:
        pair = {"type": "array", "items": self._text.schema, "minItems": 2, "maxItems": 2}
        return {"anyOf": [pair, {"type": "array", "items": pair, "minItems": 1}]}

    def check(self, value: object, name: str) -> tuple[list[tuple[str, str]], bool]:
        """Return the pairs, and whether they came as a list."""
        if not isinstance(value, list) or not value:
            raise self.error(value, name)
        if isinstance(value[0], str):
            return [self._pair(value, name)], False
        return [
            self._pair(pair, f"{name}[{position}]") for position, pair in enumerate(value)
        ], True

    def _pair(self, value: object, name: str) -> tuple[str, str]:
        if not isinstance(value, list) or len(value) != 2:
            raise self.error(value, name)
        return self._text.check(value[0], f"{name}[0]"), self._text.check(value[1], f"{name}[1]")


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
        text = TextType(self.reranker.max_characters)
        documents = DocumentsType(text)
        return (
            Field("model", String(256), "Any name: one model is served, and the answer names it."),
            Field("query", text, "What is searched for.", required=True),
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
            raw=values["raw_scores"],
        )
        work = scores.work
        tokens, logits = sum(work.tokens), work.vectors[:, 0].tolist()
        # A score that is a logit itself needs no other.
        ranks = not (values["raw_scores"] or self.reranker.scoring.activation == "identity")
        return json_response(
            {
                "id": call.record.id,
                "object": self.object_name,
                "model": self.reranker.manifest.model.name,
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
                "score_space": work.vector_space,
            },
            headers={"x-score-space": work.vector_space},
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
    alternative = Alternative(InfinityRerank, "documents", ("texts",))

    def fields(self) -> tuple[Field, ...]:
        text = TextType(self.reranker.max_characters)
        return (
            Field("query", text, "What is searched for.", required=True),
            Field("texts", InputsType(text, single=False), "The texts to score.", required=True),
            *truncation_fields(self.reranker, pairs=True),
            RAW_SCORES,
            Field("return_text", Boolean(), "Also return each text.", default=False),
            TOP_N,
        )

    def respond(self, call: Call, /) -> Response:
        values = call.values
        texts = values["texts"].texts
        scores = self.score(
            call,
            [(values["query"], text) for text in texts],
            field="texts",
            truncate=_truncation(values),
            raw=values["raw_scores"],
        )
        return json_response(
            [
                {
                    "index": index,
                    "score": score,
                    **({"text": texts[index]} if values["return_text"] else {}),
                }
                for index, score in scores.best_first()[: values["top_n"]]
            ],
            headers=timing_headers(scores.work, call, "score"),
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


def _truncation(values: dict[str, Any]) -> str:
    return "longest_first" if values["truncate"] else "refuse"
