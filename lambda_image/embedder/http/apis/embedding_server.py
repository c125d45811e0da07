"""The embedding server's API: `POST /api/v1/embed`.

Read from github.com/elijahross/embedding-server at 00700aa. Its request is TEI's. Its README shows
an object with `data`, `usage` and `timings` (strings with a unit, as Rust writes a `Duration`) as
the answer, its code sends TEI's bare list. This module follows the README, because `/embed` already
returns TEI's list. Its code answers every error but a full queue with 500;
here a bad request gets a 4xx, with its `{"error": message}` and the native API's other fields.
"""

from embedder.http.apis.native import Native
from embedder.http.apis.operation import Api, Call, json_response
from embedder.http.apis.tei import TeiEmbed
from embedder.http.http_types import Response
from embedder.http.vector_encoding import encode


class EmbeddingServer(Native):
    """Errors as the native API's, which hold `{"error": message}`."""

    name = "embedding_server"


class ServerEmbed(TeiEmbed):
    """`{"inputs": …}` → `{"data": [{"embedding", "index"}], "usage", "timings"}`."""

    api: type[Api] = EmbeddingServer
    name = "server_embed"
    summary = "Embed texts or token ids, with the embedding server's API."

    def respond(self, call: Call, /) -> Response:
        embeddings = self.embed(call, call.values["inputs"], field="inputs")
        tokens = sum(embeddings.tokens)
        rows = encode(embeddings.vectors, call.values["output_dtype"], "float")
        return json_response(
            {
                "data": [{"embedding": row, "index": index} for index, row in enumerate(rows)],
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                "timings": {
                    "tokenization": duration(embeddings.timings.tokenization),
                    "queue": duration(embeddings.timings.queue),
                    "inference": duration(embeddings.timings.inference),
                },
                "vector_space": embeddings.vector_space,
            },
            headers={"x-vector-space": embeddings.vector_space},
        )


def duration(seconds: float) -> str:
    """Write a time as Rust writes a `Duration`: 120µs, 2.5ms, 1.25s."""
    for unit, factor in (("s", 1), ("ms", 1_000), ("µs", 1_000_000)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.6g}{unit}"
    return f"{seconds * 1e9:.0f}ns"
