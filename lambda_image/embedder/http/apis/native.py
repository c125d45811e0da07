"""The kit's own API: `POST /`, `POST /similar`, `GET /health`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from embedder.core import errors
from embedder.core.embedding_request import Embeddings, Inputs
from embedder.http.apis.fields import (
    ENCODING,
    OUTPUT_DTYPE,
    InputsType,
    TextType,
    dimensions_field,
    prompt_fields,
    truncate_field,
)
from embedder.http.apis.operation import (
    Api,
    Call,
    Described,
    EmbeddingOperation,
    Operation,
    json_response,
)
from embedder.http.http_types import Request, Response
from embedder.http.json_types import Choice, Field, Integer, JsonType, Unsupported, parse_object
from embedder.http.vector_encoding import encode

if TYPE_CHECKING:  # an endpoint without an index needs none
    from embedder.core.search import IndexMatch, SearchIndex

#: Entries that a search returns by default.
DEFAULT_RESULTS = 10
_COUNT = "The largest number of entries to return."
_PRESENT = {"not": {"type": "null"}}
_BOTH_COUNTS = {
    "required": ["num_results", "top"],
    "properties": {"num_results": _PRESENT, "top": _PRESENT},
}


#: A body has one of the two fields, and null in the other's place or nothing.
TEXT_OR_TEXTS = {
    "oneOf": [
        {"required": ["text"], "properties": {"text": {"type": "string"}}},
        {"required": ["texts"], "properties": {"texts": {"type": "array"}}},
    ]
}

_UNKNOWN = (
    "More than half of a text's tokens are unknown to the model: texts that differ in such words "
    "have nearly the same vector. Use a model that knows the language."
)


def given_texts(values: dict[str, Any]) -> tuple[str, Inputs]:
    """Return the field that holds the texts, `text` or `texts`, and the texts."""
    text, texts = values["text"], values["texts"]
    if (text is None) == (texts is None):
        raise errors.InvalidFieldError(
            'The body must have either "text", a string, or "texts", a list of strings; found '
            + ("neither." if text is None else "both."),
            field="text",
        )
    if texts is None:
        return "text", Inputs(texts=[text], is_list=False)
    return "texts", texts


def warnings_of(embeddings: Embeddings | None) -> dict[str, Any]:
    """Return the field of an answer with the problems of texts; empty if there are none."""
    if embeddings is None or not embeddings.unknown:
        return {}
    positions = list(embeddings.unknown)
    return {"warnings": [{"code": "unknown_tokens", "message": _UNKNOWN, "inputs": positions}]}


class Native(Api):
    """Errors as `{"error": message, "code": …, "field": …, "request_id": …}`."""

    name = "native"
    statuses: ClassVar = {
        **Api.statuses,
        errors.InputTooLongError: 413,
        errors.BatchTooLargeError: 413,
    }

    @staticmethod
    def error_body(error: errors.AnswerableError, _status: int, request_id: str) -> dict[str, Any]:
        return {
            "error": error.message,
            "code": error.code,
            "field": error.field,
            "request_id": request_id,
        }


class Embed(EmbeddingOperation):
    """`{"text": …, "size": …}` → `{"embedding": […], "size": n}`; `texts` gives `embeddings`."""

    api = Native
    name = "embed"
    answers_vectors = True
    summary = "Embed a text, or several."

    rule: ClassVar = TEXT_OR_TEXTS

    def fields(self) -> tuple[Field, ...]:
        limits = self.engine.limits
        text = TextType(limits.max_characters)
        return (
            Field("text", text, "The text to embed."),
            Field("texts", InputsType(text, single=False), "Several texts to embed."),
            *prompt_fields(limits),
            truncate_field(limits),
            *self.shape_fields(),
        )

    def shape_fields(self) -> tuple[Field, ...]:
        """Return the fields that say how the vectors are returned."""
        return (dimensions_field("size", self.engine.limits), OUTPUT_DTYPE, ENCODING)

    def shaped(self, vectors: Any, values: dict[str, Any], /) -> tuple[list[Any], dict[str, Any]]:
        """Return the vectors as these fields say, and what else the answer has."""
        rows = encode(vectors, values["output_dtype"], values["encoding_format"])
        return rows, {"size": values["size"]}

    def respond(self, call: Call, /) -> Response:
        values = call.values
        field, inputs = given_texts(values)
        embeddings = self.embed(call, inputs, field=field, dimensions=values.get("size"))
        rows, extra = self.shaped(embeddings.vectors, values)
        return json_response(
            {
                **({"embeddings": rows} if inputs.is_list else {"embedding": rows[0]}),
                **extra,
                "tokens": sum(embeddings.tokens),
                "vector_space": embeddings.vector_space,
                **warnings_of(embeddings),
            },
            headers={"x-vector-space": embeddings.vector_space},
        )


class Similar(EmbeddingOperation):
    """`{"text": …, "num_results": …}` → the most similar entries of the index."""

    api = Native
    name = "similar"
    #: The kind of vectors that are searched.
    mode = "dense"
    more_statuses = (404,)
    summary = "Search the index."

    rule: ClassVar = {"not": _BOTH_COUNTS}

    def fields(self) -> tuple[Field, ...]:
        limits = self.engine.limits
        return (*self.search_fields(), *prompt_fields(limits), truncate_field(limits))

    def search_fields(self) -> tuple[Field, ...]:
        """Return the fields of a search in any mode."""
        from embedder.core.search import MAX_RESULTS  # noqa: PLC0415 - on demand

        limits = self.engine.limits
        index = self.model.search_index
        count = Integer(1, MAX_RESULTS if index is None else index.max_results)
        text = TextType(limits.max_characters)
        return (
            Field("text", text, "The text to search for.", required=True),
            Field("num_results", count, f"{_COUNT} By default {DEFAULT_RESULTS}."),
            Field("top", count, "Another name for num_results."),
            Field("filter", filter_type(index), "Which metadata an entry must have."),
            Field(
                "mode",
                Choice(tuple(search.mode for search in self.choices)),
                "The kind of vectors to search: that of the model, or of one of the models.",
                default=self.mode,
            ),
        )

    def chosen(self, request: Request) -> Operation:
        for search in self.choices[1:]:
            # Hardly a request for another mode holds the word, so hardly one is parsed twice.
            is_named = f'"{search.mode}"'.encode() in request.body
            if is_named and parse_object(request.body).get("mode") == search.mode:
                return search
        return self

    @property
    def choices(self) -> Sequence[Similar]:
        searches = [search for search in self.counterparts.values() if isinstance(search, Similar)]
        return (self, *(search for search in searches if search.model.search_index is not None))

    def respond(self, call: Call, /) -> Response:
        values = call.values
        index = self.model.search_index
        if index is None:
            raise errors.NoIndexError(
                "This endpoint has no search index, so there is nothing to search."
            )
        if values["num_results"] is not None and values["top"] is not None:
            raise errors.InvalidFieldError(
                'The body must have "num_results" or "top", which mean the same; found both.',
                field="top",
            )
        count = values["num_results"] or values["top"] or DEFAULT_RESULTS
        matches = self.find(call, index, values["text"], count, field="text")
        return json_response(
            {
                "results": [
                    {
                        "text": match.text,
                        "index": match.position,
                        "id": match.id,
                        "score": match.score,
                        "metadata": {**match.metadata},
                    }
                    for match in matches
                ],
                "vector_space": index.vector_space,
                **warnings_of(call.record.embeddings),
            },
            headers={"x-vector-space": index.vector_space},
        )

    def find(
        self,
        call: Call,
        index: SearchIndex,
        text: str,
        count: int,
        *,
        field: str,
        with_words: bool = False,
        embedded: Callable[[], object] = lambda: None,
    ) -> list[IndexMatch]:
        """Return the entries most similar to the text of a field, best first.

        `with_words` looks for the text's words too, where the index can. `embedded` is called
        between the model and the index.
        """
        where, prefixes = call.values["filter"], self.model.prefixes
        if prefixes is not None:
            where = prefixes.limited(call.request.caller, where)
        index.prepare(call.request.deadline)
        embeddings = self.embed(
            call,
            Inputs(texts=[text], is_list=False),
            field=field,
            dimensions=index.dimensions,
            # The text of a search is a query, whatever the default prompt is.
            default_prompt="query",
        )
        embedded()
        record, began = call.record, time.perf_counter()
        try:
            vector, deadline = embeddings.vectors[0], call.request.deadline
            words = text if with_words else ""
            return index.search(vector, count, where=where, text=words, deadline=deadline)
        finally:
            spent = time.perf_counter() - began
            record.search_seconds = (record.search_seconds or 0.0) + spent


def filter_type(index: SearchIndex | None) -> JsonType:
    """Return the type of a search's filter."""
    if index is None or not index.takes_filter:
        return Unsupported("the index has no metadata")
    from embedder.http.metadata_filter import MetadataFilter  # noqa: PLC0415 - on demand

    return MetadataFilter()


class Health(Described):
    """A report that requests can be served: the model is loaded before the first one is taken."""

    api = Native
    name = "health"
    summary = "Report that the model is loaded, and its name."

    def description(self) -> dict[str, Any]:
        manifest = self.model.loaded.manifest
        return {
            "status": "ok",
            "model": manifest.model.name,
            f"{manifest.space_kind}_space": manifest.space,
        }
