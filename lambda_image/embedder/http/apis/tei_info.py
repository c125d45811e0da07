"""TEI's `GET /info`: the model, its settings and all limits."""

from embedder import __version__
from embedder.http.apis.operation import Api, Call, Operation, json_response
from embedder.http.apis.tei import Tei
from embedder.http.http_types import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, Response
from embedder.http.vector_encoding import DTYPES, ENCODINGS, largest_batch

__all__ = ["Info"]


class Info(Operation):
    """The model, its settings and all limits: TEI's fields, and ours."""

    api: type[Api] = Tei
    name = "info"
    summary = "Return the model, its settings and all limits."

    def respond(self, _call: Call, /) -> Response:
        engine, index = self.model.engine, self.model.search_index
        manifest, limits = engine.manifest, engine.limits
        batches = {
            str(dimensions): {
                dtype: {
                    encoding: largest_batch(dimensions, dtype, encoding) for encoding in ENCODINGS
                }
                for dtype in DTYPES
            }
            for dimensions in limits.dimensions
        }
        return json_response(
            {
                "model_id": manifest.model.name,
                "model_sha": manifest.model.revision,
                "model_dtype": manifest.precision,
                "served_model_name": manifest.model.name,
                # Pooling is part of the compiled graph.
                "model_type": {"embedding": {"pooling": "graph"}},
                "max_concurrent_requests": self.model.max_concurrent_requests,
                "max_input_length": limits.max_tokens,
                "max_batch_tokens": max(engine.run_tokens, limits.max_tokens),
                "max_batch_requests": None,
                "max_client_batch_size": largest_batch(limits.full_dimensions, "float", "float"),
                "auto_truncate": limits.truncate != "refuse",
                # Each request is tokenized in its own thread.
                "tokenization_workers": self.model.max_concurrent_requests,
                "version": __version__,
                "sha": None,
                "docker_label": None,
                "vector_space": engine.vector_space(),
                "dimensions": list(limits.dimensions),
                "prompts": list(limits.prompts),
                "default_prompt": limits.default_prompt,
                "truncate": limits.truncate,
                "max_characters": limits.max_characters,
                "max_request_bytes": MAX_REQUEST_BYTES,
                "max_response_bytes": MAX_RESPONSE_BYTES,
                "max_batch_sizes": batches,
                "index_entries": None if index is None else index.entries,
                # What the compiler computed, for a comparison from outside.
                "golden": [entry._asdict() for entry in manifest.golden],
            },
            headers={"x-vector-space": engine.vector_space()},
        )
