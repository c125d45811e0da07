"""OpenAI's dialect: `POST /v1/embeddings`.

https://platform.openai.com/docs/api-reference/embeddings/create
"""

from typing import Any, ClassVar

from embedder.dialects.operation import Call, Dialect, Model, Operation, json_response
from embedder.dialects.options import (
    INPUT_TYPES,
    choose_prompt,
    dimension_field,
    encoding_field,
    output_dtype_field,
    prompt_fields,
    truncate_field,
    truncation,
)
from embedder.dialects.schemas import USAGE, vector_schema
from embedder.errors import AnswerableError, InvalidFieldError, statuses_of
from embedder.http import Response
from embedder.json_body import quotable
from embedder.json_types import Field, Object, String
from embedder.rendering import check_batch, encode
from embedder.requests import Embeddings, EmbedRequest, InputsType, Limits, TextType

__all__ = ["CreateEmbeddings", "OpenAI", "alias_prompt"]

_TRUNCATE_HINT = 'Send "truncate": true (or "right", "left") to have it cut.'


class OpenAI(Dialect):
    """Errors as `{"error": {"message", "type", "param", "code"}}`."""

    name = "openai"
    error_statuses = (400, 413, 500, 503)
    error_schema: ClassVar = {
        "type": "object",
        "properties": {
            "error": {
                "type": "object",
                "properties": {
                    "message": {"type": "string"},
                    "type": {"enum": ["invalid_request_error", "server_error"]},
                    "param": {"type": ["string", "null"]},
                    "code": {"type": ["string", "null"]},
                },
                "required": ["message", "type", "param", "code"],
            }
        },
        "required": ["error"],
    }

    @staticmethod
    def error(error: AnswerableError, request_id: str) -> Response:
        """See `Dialect`; the request's id stands in the header, where OpenAI's clients look."""
        del request_id
        status = statuses_of(error).openai
        return json_response(
            {
                "error": {
                    "message": error.message,
                    "type": "invalid_request_error" if status < 500 else "server_error",
                    "param": error.field,
                    "code": error.code,
                }
            },
            status=status,
            headers=error.headers,
        )


class CreateEmbeddings(Operation):
    """`{"input": …, "model": …}` → `{"object": "list", "data": […], "model", "usage"}`."""

    dialect: type[Dialect] = OpenAI
    name = "create_embeddings"
    summary = "Embed texts or token ids, in OpenAI's dialect."

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        limits = model.engine.limits
        text = TextType(limits.max_characters)
        self.body = Object(
            (
                Field(
                    "input",
                    InputsType(text, vocabulary_size=limits.vocabulary_size),
                    "A text, a list of texts, token ids of this model's vocabulary, or a list of "
                    "those.",
                    required=True,
                ),
                Field(
                    "model",
                    String(256),
                    "Any name: one model is served, and the answer names it. What follows its last "
                    "colon names a prompt, as in embeddinggemma-300m:query.",
                ),
                dimension_field("dimensions", limits),
                encoding_field(),
                Field("user", String(), "Taken, and not looked at."),
                *prompt_fields(limits),
                truncate_field(limits),
                output_dtype_field(),
            )
        )

    def answer(self, call: Call, /) -> Response:
        """See `Operation`."""
        values = call.values
        limits = self.model.engine.limits
        inputs, dimension = values["input"], values["dimensions"]
        dtype, encoding = values["output_dtype"], values["encoding_format"]
        check_batch(len(inputs), dimension, dtype, encoding, field="input")
        embeddings = self.embed(
            EmbedRequest(
                inputs=inputs,
                prompt=choose_prompt(values, limits, alias=alias_prompt(values["model"], limits)),
                title=values["title"],
                dimension=dimension,
                truncate=truncation(values),
                field="input",
                truncate_hint=_TRUNCATE_HINT,
                deadline=call.request.deadline,
            ),
            call,
        )
        tokens = sum(embeddings.tokens)
        return json_response(
            {
                "object": "list",
                "data": [
                    {"object": "embedding", "index": index, "embedding": row}
                    for index, row in enumerate(encode(embeddings.vectors, dtype, encoding))
                ],
                "model": self.model.engine.manifest.model.name,
                "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
                "vector_space": embeddings.vector_space,
            },
            headers=self.headers(embeddings, call),
        )

    def headers(self, embeddings: Embeddings, _call: Call, /) -> dict[str, str]:
        """Return the answer's own headers."""
        return {"x-vector-space": embeddings.vector_space}

    @property
    def result(self) -> dict[str, Any]:
        """See `Operation`."""
        entry = {
            "type": "object",
            "properties": {
                "object": {"const": "embedding"},
                "index": {"type": "integer"},
                "embedding": vector_schema(),
            },
            "required": ["object", "index", "embedding"],
        }
        return {
            "type": "object",
            "properties": {
                "object": {"const": "list"},
                "data": {"type": "array", "items": entry},
                "model": {"type": "string"},
                "usage": USAGE,
                "vector_space": {"type": "string"},
            },
            "required": ["object", "data", "model", "usage", "vector_space"],
        }


def alias_prompt(model: str | None, limits: Limits) -> str | None:
    """Return the prompt's name that a model's alias carries after its last colon.

    An SDK that cannot send extra fields can still send a model's name.

    Raises:
        InvalidFieldError: if what follows the colon names no prompt.
    """
    _, colon, suffix = (model or "").rpartition(":")
    if not colon:
        return None
    if suffix in limits.prompts:
        return suffix
    for prompt in INPUT_TYPES.get(suffix, ()):
        if prompt in limits.prompts:
            return prompt
    allowed = ", ".join(f'"…:{name}"' for name in limits.prompts)
    raise InvalidFieldError(
        f'"model" must be a name, or a name with a prompt after a colon ({allowed or "none: the "}'
        f"{'' if allowed else 'model has no prompts'}); found {quotable(suffix)} after the colon.",
        field="model",
    )
