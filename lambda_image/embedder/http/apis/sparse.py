"""The routes of a sparse encoder: the kit's own, and those of text-embeddings-inference (TEI).

TEI's `/embed_sparse` is read from its source; see `tei`. In both APIs, the weights of a vector are
in the order of their tokens, and weights of 0 are left out.

Imported on demand: no embedding model pays for it.
"""

from typing import Any

from embedder.http.apis import native, tei
from embedder.http.apis.fields import InputsType, TextType, prompt_name_field, truncation_fields
from embedder.http.apis.operation import Call, EmbeddingOperation, Operation, json_response
from embedder.http.http_types import Response
from embedder.http.json_types import Field, Integer, Number

#: The most that a threshold may be: of a weight over it, e to the power of it would be a logit.
_MAX_THRESHOLD = 1000


class SparseEmbed(native.Embed):
    """`{"text": …}` → `{"embedding": {"indices", "values"}}`; `texts` gives `embeddings`."""

    name = "sparse_embed"
    answers_vectors = False
    summary = "Encode a text, or several, as sparse vectors."

    def shape_fields(self) -> tuple[Field, ...]:
        return (
            Field(
                "top_k",
                Integer(1, self.engine.limits.full_dimensions),
                "Keep the largest weights of each vector, this many; all by default.",
            ),
            Field(
                "threshold",
                Number(0, _MAX_THRESHOLD),
                "Keep the weights of each vector that are at least this; all by default.",
            ),
        )

    def shaped(self, vectors: Any, values: dict[str, Any], /) -> tuple[list[Any], dict[str, Any]]:
        keep = {name: values[name] for name in ("top_k", "threshold")}
        return [vector.pruned(**keep)._asdict() for vector in vectors], {}


class TeiEmbedSparse(EmbeddingOperation):
    """`{"inputs": …}` → `[[{"index", "value"}]]`, a list of vectors even for one text."""

    api = tei.Tei
    name = "tei_embed_sparse"
    summary = "Encode texts as sparse vectors, in the API of text-embeddings-inference."
    truncate_hint = tei.TeiEmbed.truncate_hint

    def fields(self) -> tuple[Field, ...]:
        limits = self.engine.limits
        inputs = InputsType(TextType(limits.max_characters))
        return (
            Field("inputs", inputs, "A text, or a list of texts.", required=True),
            *truncation_fields(limits),
            prompt_name_field(limits),
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


class SparseSimilar(native.Similar):
    """`{"text": …}` → the entries of the sparse index with the largest products."""

    mode = "sparse"


class SparseInfo(tei.TeiInfo):
    """The model, the size of its vocabulary and all limits."""

    name = "sparse_info"

    def description(self) -> dict[str, Any]:
        """See `tei.TeiInfo`; a vector's size in an answer depends on its text."""
        description = super().description()
        for name in ("dimensions", "max_batch_sizes", "max_client_batch_size"):
            del description[name]
        return {
            **description,
            "model_type": {"embedding": {"pooling": "splade"}},
            "vocabulary_size": self.engine.limits.full_dimensions,
        }


#: Path → method → operation.
ROUTES: dict[str, dict[str, type[Operation]]] = {
    "/": {"POST": SparseEmbed},
    "/similar": {"POST": SparseSimilar},
    "/health": {"GET": native.Health},
    "/embed_sparse": {"POST": TeiEmbedSparse},
    "/tokenize": {"POST": tei.Tokenize},
    "/info": {"GET": SparseInfo},
}
