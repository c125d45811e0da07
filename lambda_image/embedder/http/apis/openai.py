"""OpenAI's API: `POST /v1/embeddings`.

https://platform.openai.com/docs/api-reference/embeddings/create
"""

from typing import Any

from embedder.core.embedding_request import Embeddings, Limits
from embedder.core.errors import AnswerableError, InvalidFieldError
from embedder.http.apis.fields import (
    ADD_SPECIAL_TOKENS,
    ENCODING,
    INPUT_TYPES,
    OUTPUT_DTYPE,
    InputsType,
    TextType,
    dimensions_field,
    prompt_fields,
    truncate_field,
)
from embedder.http.apis.operation import Api, Call, EmbeddingOperation, Operation, json_response
from embedder.http.http_types import Response
from embedder.http.json_types import Choice, Field, String, quote_name
from embedder.http.vector_encoding import encode

#: LangChain's default: ids of tiktoken's cl100k_base, whatever the model is.
_IDS_HINT = (
    "Ids of another tokenizer give wrong vectors. LangChain's OpenAIEmbeddings sends those of "
    "tiktoken unless it is made with check_embedding_ctx_length=False."
)


class OpenAI(Api):
    """Errors as `{"error": {"message", "type", "param", "code"}}`."""

    name = "openai"

    @staticmethod
    def error_body(error: AnswerableError, status: int, _request_id: str) -> dict[str, Any]:
        return {
            "error": {
                "message": error.message,
                "type": "invalid_request_error" if status < 500 else "server_error",
                "param": error.field,
                "code": error.code,
            }
        }


class CreateEmbeddings(EmbeddingOperation):
    """`{"input": …, "model": …}` → `{"object": "list", "data": […], "model", "usage"}`."""

    api: type[Api] = OpenAI
    name = "create_embeddings"
    answers_vectors = True
    ids_hint = _IDS_HINT
    summary = "Embed texts or token ids, with OpenAI's API."

    def fields(self) -> tuple[Field, ...]:
        limits = self.engine.limits
        text = TextType(limits.max_characters)
        return (
            Field(
                "input",
                InputsType(text, vocabulary_size=limits.vocabulary_size, ids_hint=_IDS_HINT),
                "A text, a list of texts, token ids as POST /tokenize returns them, or a list of "
                "those.",
                required=True,
            ),
            ADD_SPECIAL_TOKENS,
            Field(
                "model",
                String(256),
                "Any name: one model is served, and the answer names it. A prompt's name after "
                "the last colon chooses that prompt, as in embeddinggemma-300m:query.",
            ),
            dimensions_field("dimensions", limits, zero=True),
            ENCODING,
            Field("user", String(), "Accepted and ignored."),
            Field("modality", Choice(("text",)), "Accepted and ignored, for infinity's clients."),
            *prompt_fields(limits),
            truncate_field(limits),
            OUTPUT_DTYPE,
        )

    def respond(self, call: Call, /) -> Response:
        values = call.values
        engine = self.engine
        alias = alias_prompt(values["model"], engine.manifest.model.name, engine.limits)
        embeddings = self.embed(call, values["input"], field="input", alias=alias)
        rows = encode(embeddings.vectors, values["output_dtype"], values["encoding_format"])
        tokens = sum(embeddings.tokens)
        return json_response(
            {
                # Mistral's SDKs ask for one.
                "id": call.record.id,
                "object": "list",
                "data": [
                    {"object": "embedding", "index": index, "embedding": row}
                    for index, row in enumerate(rows)
                ],
                "model": engine.manifest.model.name,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                "vector_space": embeddings.vector_space,
            },
            headers=self.headers(embeddings, call),
        )

    def headers(self, embeddings: Embeddings, _call: Call, /) -> dict[str, str]:
        """Return the answer's own headers."""
        return {"x-vector-space": embeddings.vector_space}


class ListModels(Operation):
    """`{"object": "list", "data": [{"id", "object": "model", "created", "owned_by"}]}`."""

    api: type[Api] = OpenAI
    name = "list_models"
    summary = "List the one model that is served, with OpenAI's API."

    def respond(self, _call: Call, /) -> Response:
        """See `Operation`; an artifact does not say when its model was made, so `created` is 0."""
        manifest = self.model.loaded.manifest
        entry = {
            "id": manifest.model.name,
            "object": "model",
            "created": 0,
            **self.more(manifest.model.name),
            f"{manifest.space_kind}_space": manifest.space,
        }
        return json_response(
            {"object": "list", "data": [entry]},
            headers={f"x-{manifest.space_kind}-space": manifest.space},
        )

    def more(self, name: str) -> dict[str, Any]:
        """Return the other fields of the model with this name."""
        return {"owned_by": name.partition("/")[0] if "/" in name else "unknown"}


class InfinityModels(ListModels):
    """The same for infinity's client, which wants `stats`, and no owner but infinity."""

    name = "infinity_models"
    summary = "List the one model that is served, with infinity's API."

    def more(self, name: str) -> dict[str, Any]:  # noqa: ARG002
        return {"stats": {}}


def alias_prompt(model: str | None, served: str, limits: Limits) -> str | None:
    """Return the prompt's name that a model's alias carries after its last colon.

    An SDK that cannot send extra fields can still send a model's name. Others use colons for their
    own purposes (`all-minilm:latest`, `ft:model:org::id`), so another suffix is part of
    the name, unless it follows the name of the model that is served.
    """
    name, colon, suffix = (model or "").rpartition(":")
    if not colon:
        return None
    for prompt in (suffix, *INPUT_TYPES.get(suffix, ())):
        if prompt in limits.prompts:
            return prompt
    served = served.lower()
    if not limits.prompts or name.lower() not in {served, served.rpartition("/")[2]}:
        return None
    allowed = ", ".join(f'"{name}:{prompt}"' for prompt in limits.prompts)
    raise InvalidFieldError(
        f'"model" names the model that is served with a suffix that is not one of its prompts. '
        f"Allowed: any name without a colon, or {allowed}; found {quote_name(suffix)} after the "
        "colon.",
        field="model",
    )
