"""`POST /chunk`: a document to the chunks that `[ingest]` makes of it, without vectors.

It is an API of this machine alone: a deployed function has no readers of documents.
"""

import base64
import binascii
from functools import cached_property
from pathlib import Path
from typing import Any

from embedder.core.artifact import load_artifacts
from embedder.core.engine import Engine
from embedder.core.errors import AnswerableError, ClientError, UnknownPathError, WrongMethodError
from embedder.core.sparse import SparseEncoder
from embedder.core.tokenization import RequestTokenizer
from embedder.http.apis.native import Native
from embedder.http.apis.operation import json_response
from embedder.http.json_types import Field, Integer, JsonType, Object, String, parse_object
from jobs.documents.chunking import Chunker
from jobs.documents.chunks import check_size, divide
from jobs.documents.document import RefusedDocumentError
from tools.local_endpoint.events import LambdaResponse

#: The path, and the most bytes of a body: an object of `[ingest]` has up to 32 MB, in base64 43.
PATH = "/chunk"
MAX_BYTES = 44 * 1024 * 1024
_MAX_TOKENS = 1_000_000


class UnreadableDocumentError(ClientError):
    """The document cannot be read; the message is the reason by which `[ingest]` refuses it."""

    code = "refused_document"


class _Base64(JsonType):
    """Bytes in base64."""

    allowed = "base64"

    def check(self, value: object, name: str) -> bytes:
        try:
            return base64.b64decode(value, validate=True)  # type: ignore[arg-type]
        except (TypeError, ValueError, binascii.Error):
            raise self.error(value, name) from None


class _Names(JsonType):
    """A list of metadata keys."""

    allowed = "a list of up to 50 keys of 1 to 63 characters"

    def check(self, value: object, name: str) -> list[str]:
        if not isinstance(value, list) or len(value) > 50:
            raise self.error(value, name)
        if all(isinstance(key, str) and 0 < len(key) < 64 and key.isprintable() for key in value):
            return value
        raise self.error(value, name)


_BODY = Object(
    (
        Field("name", String(), "The file's name: its suffix decides the format.", required=True),
        Field("data", _Base64(), "The file, in base64.", required=True),
        Field("metadata", _Names(), "The metadata keys that are wanted.", default=[]),
        Field("chunk_tokens", Integer(1, _MAX_TOKENS), "The most tokens of a chunk."),
        Field("overlap_tokens", Integer(0, _MAX_TOKENS), "The most tokens that a chunk repeats."),
    )
)


class ChunkRoute:
    """Divides documents for the model of an artifact."""

    def __init__(self, artifact: Path) -> None:
        self._artifact = artifact

    def respond(self, method: str, body: bytes, request_id: str) -> LambdaResponse:
        """Answer a request in the form of the native API."""
        try:
            if method != "POST":
                raise WrongMethodError(f"This path is served by POST; found {method}.")
            response = json_response(self._chunks(**_BODY.check(parse_object(body))))
        except RefusedDocumentError as error:
            refused = UnreadableDocumentError(str(error), field="data")
            response = Native.error(refused, request_id)
        except AnswerableError as error:
            response = Native.error(error, request_id)
        headers = {**response.headers, "x-request-id": request_id}
        return LambdaResponse(status=response.status, headers=headers, body=response.body)

    def _chunks(
        self,
        name: str,
        data: bytes,
        metadata: list[str],
        chunk_tokens: int | None,
        overlap_tokens: int | None,
    ) -> dict[str, Any]:
        chunker = Chunker(self._request_tokenizer, tokens=chunk_tokens, overlap=overlap_tokens)
        check_size(len(data))
        document = divide(name, data, {}, chunker, wanted=metadata, non_filterable=("text",))
        chunks = [
            {
                "text": (text := of_chunk.pop("text")),
                "headings": of_chunk.get("headings", ""),
                "tokens": len(self._request_tokenizer.tokenizer.encode(text)),
                "metadata": of_chunk,
            }
            for of_chunk in document.metadata.values()
        ]
        return {
            "title": chunks[0]["metadata"]["title"],
            "chunks": chunks,
            "problems": document.problems,
            "counts": document.counts._asdict(),
        }

    @cached_property
    def _request_tokenizer(self) -> RequestTokenizer:
        artifact = load_artifacts(self._artifact)[0]
        if artifact.manifest.scoring is not None:
            raise UnknownPathError(f"Nothing is served at this path of {artifact.manifest.kind}.")
        model = SparseEncoder if artifact.manifest.task == "sparse" else Engine
        return model.load(artifact).request_tokenizer
