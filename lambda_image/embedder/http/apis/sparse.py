"""The routes of a sparse encoder: the kit's own, and those of text-embeddings-inference (TEI).

TEI's `/embed_sparse` is read from its source; see `tei`. In both APIs, the weights of a vector are
in the order of their tokens, and weights of 0 are left out.

Imported on demand: no embedding model pays for it.
"""

from typing import Any

from embedder import __version__
from embedder.core.embedding_request import Inputs
from embedder.core.errors import InvalidFieldError
from embedder.core.sparse_encoder import SparseVector
from embedder.http.apis import native, tei
from embedder.http.apis.input_types import InputsType, TextType
from embedder.http.apis.native import Native
from embedder.http.apis.operation import Call, Model, Operation, json_response
from embedder.http.apis.options import (
    prompt_fields,
    prompt_name_field,
    truncate_field,
    truncation_fields,
)
from embedder.http.http_types import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, Response
from embedder.http.json_types import Field, Integer, Number, Object

#: The most that a threshold may be: of a weight over it, e to the power of it would be a logit.
_MAX_THRESHOLD = 1000


class Embed(Operation):
    """`{"text": …}` → `{"embedding": {"indices", "values"}}`; `texts` gives `embeddings`."""

    api = Native
    name = "sparse_embed"
    summary = "Encode a text, or several, as sparse vectors."

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        limits = model.engine.limits
        text = TextType(limits.max_characters)
        self.body = Object(
            (
                Field("text", text, "The text to encode."),
                Field("texts", InputsType(text, single=False), "Several texts to encode."),
                Field(
                    "top_k",
                    Integer(1, limits.full_dimensions),
                    "Keep the largest weights of each vector, this many; all by default.",
                ),
                Field(
                    "threshold",
                    Number(0, _MAX_THRESHOLD),
                    "Keep the weights of each vector that are at least this; all by default.",
                ),
                *prompt_fields(limits),
                truncate_field(limits),
            ),
            rule={
                "oneOf": [
                    {"required": ["text"], "properties": {"text": {"type": "string"}}},
                    {"required": ["texts"], "properties": {"texts": {"type": "array"}}},
                ]
            },
        )

    def respond(self, call: Call, /) -> Response:
        values = call.values
        text, texts = values["text"], values["texts"]
        if (text is None) == (texts is None):
            raise InvalidFieldError(
                'The body must have either "text", a string, or "texts", a list of strings; found '
                + ("neither." if text is None else "both."),
                field="text",
            )
        field = "text" if texts is None else "texts"
        inputs = Inputs(texts=[text], is_list=False) if texts is None else texts
        embeddings = self.embed(call, inputs, field=field)
        vectors: list[SparseVector] = [
            vector.pruned(top_k=values["top_k"], threshold=values["threshold"])
            for vector in embeddings.vectors
        ]
        found = [{"indices": vector.indices, "values": vector.values} for vector in vectors]
        return json_response(
            {
                **({"embedding": found[0]} if texts is None else {"embeddings": found}),
                "tokens": sum(embeddings.tokens),
                "vector_space": embeddings.vector_space,
            },
            headers={"x-vector-space": embeddings.vector_space},
        )


class TeiEmbedSparse(Operation):
    """`{"inputs": …}` → `[[{"index", "value"}]]`, a list of vectors even for one text."""

    api = tei.Tei
    name = "tei_embed_sparse"
    summary = "Encode texts as sparse vectors, in the API of text-embeddings-inference."
    truncate_hint = tei.Embed.truncate_hint

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        limits = model.engine.limits
        self.body = Object(
            (
                Field(
                    "inputs",
                    InputsType(TextType(limits.max_characters)),
                    "A text, or a list of texts.",
                    required=True,
                ),
                *truncation_fields(limits),
                prompt_name_field(limits),
            )
        )

    def respond(self, call: Call, /) -> Response:
        embeddings = self.embed(call, call.values["inputs"], field="inputs")
        return json_response(
            [
                [
                    {"index": index, "value": value}
                    for index, value in zip(vector.indices.tolist(), vector.values, strict=True)
                ]
                for vector in embeddings.vectors
            ],
            headers=tei.timing_headers(embeddings, call),
        )


class Similar(native.Similar):
    """`{"text": …}` → the entries of the sparse index with the largest products."""

    mode = "sparse"


class Info(Operation):
    """The model, its vocabulary's size and all limits: TEI's fields, and ours."""

    api = tei.Tei
    name = "sparse_info"
    summary = "Return the model, its settings and all limits."

    def respond(self, _call: Call, /) -> Response:
        engine, index = self.model.engine, self.model.search_index
        manifest, limits = engine.manifest, engine.limits
        answer: dict[str, Any] = {
            "model_id": manifest.model.name,
            "model_sha": manifest.model.revision,
            "model_dtype": manifest.precision,
            "served_model_name": manifest.model.name,
            "model_type": {"embedding": {"pooling": "splade"}},
            "max_concurrent_requests": self.model.max_concurrent_requests,
            "max_input_length": limits.max_tokens,
            "max_batch_tokens": max(engine.run_tokens, limits.max_tokens),
            "max_batch_requests": None,
            "auto_truncate": limits.truncate != "refuse",
            "tokenization_workers": self.model.max_concurrent_requests,
            "version": __version__,
            "sha": None,
            "docker_label": None,
            "vector_space": engine.vector_space(),
            "vocabulary_size": limits.full_dimensions,
            "prompts": list(limits.prompts),
            "default_prompt": limits.default_prompt,
            "truncate": limits.truncate,
            "max_characters": limits.max_characters,
            "max_request_bytes": MAX_REQUEST_BYTES,
            "max_response_bytes": MAX_RESPONSE_BYTES,
            "index_entries": None if index is None else index.entries,
            "golden": [entry._asdict() for entry in manifest.golden],
        }
        return json_response(answer, headers={"x-vector-space": engine.vector_space()})


#: Path → method → operation.
ROUTES: dict[str, dict[str, type[Operation]]] = {
    "/": {"POST": Embed},
    "/similar": {"POST": Similar},
    "/health": {"GET": native.Health},
    "/embed_sparse": {"POST": TeiEmbedSparse},
    "/tokenize": {"POST": tei.Tokenize},
    "/info": {"GET": Info},
}
