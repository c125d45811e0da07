"""The API of Hugging Face's text-embeddings-inference (TEI).

Read from its source, github.com/huggingface/text-embeddings-inference at 0d124dc (2026-07), files
router/src/http/{server,types}.rs and router/src/lib.rs. Where its documentation and its code
disagree, this module follows the code:

- A batch over the limit is 422 in the code and 413 in docs/openapi.json.
- `error_type` is capitalized on the wire (`Validation`, `Empty`), as the enum has no renaming; the
  examples of the documents have it in lower case.
- The error of the OpenAI-compatible route is `{"message", "code", "type"}`; its schema says
  `error_type`.

What differs on purpose: fields that are unknown are refused, where TEI ignores them (its structs do
not deny unknown fields), unless they have no effect with the value sent; errors of JSON itself have
TEI's statuses (400 for syntax, 422 for types) and this API's body, where TEI sends plain text; a
batch is texts or token ids, not both; token ids that lack the model's special tokens are refused,
as by OpenAI's path; `x-compute-type` is the real one; times are those of the whole request, where
TEI returns the mean of its inputs; `/tokenize` answers the vocabulary's spelling of each token,
and null for `start` and `stop`; the routes for other kinds of models are not served.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, ClassVar

from embedder import __version__
from embedder.core import errors
from embedder.core.embedding_request import Embeddings, Inputs, Limits
from embedder.core.quantization import DTYPES
from embedder.http.apis.fields import (
    ADD_SPECIAL_TOKENS,
    OUTPUT_DTYPE,
    InputsType,
    TextType,
    dimensions_field,
    prompt_name_field,
    truncation_fields,
)
from embedder.http.apis.openai import CreateEmbeddings
from embedder.http.apis.operation import (
    Api,
    Call,
    Described,
    EmbeddingOperation,
    ServedModel,
    json_response,
)
from embedder.http.http_types import MAX_REQUEST_BYTES, MAX_RESPONSE_BYTES, Response
from embedder.http.json_types import Boolean, Field, Object
from embedder.http.vector_encoding import ENCODINGS, encode, largest_batch

if TYPE_CHECKING:  # an embedding model needs no scores
    from embedder.core.scorer import Scorer

#: Clients of Hugging Face's inference API send it, such as Weaviate's text2vec-huggingface. No
#: option changes a vector here: the model is always loaded, and a cached vector is the same.
_OPTIONS = Field(
    "options",
    Object(
        tuple(
            Field(name, Boolean(), "Accepted and ignored.")
            for name in ("use_cache", "use_gpu", "wait_for_model")
        )
    ),
    "Accepted and ignored.",
)


def error_type(error: errors.AnswerableError) -> str:
    """Return TEI's name for the kind of an error."""
    match error:
        case errors.EmptyInputError():
            return "Empty"
        case errors.OutOfTimeError() | errors.OverloadedError():
            return "Overloaded"
        case errors.ServerError() | errors.WrongModelError():
            return "Backend"
        case _:
            return "Validation"


class Tei(Api):
    """Errors as `{"error": message, "error_type": kind}`."""

    name = "tei"
    # The statuses of TEI's code (`impl From<&ErrorType> for StatusCode` in
    # router/src/http/server.rs).
    statuses: ClassVar = {
        **Api.statuses,
        errors.InvalidFieldError: 422,
        errors.InputTooLongError: 422,
        errors.BatchTooLargeError: 422,
        errors.OutOfTimeError: 429,
        errors.InferenceError: 424,
    }
    error_statuses = (400, 413, 422, 424, 429, 500)

    @staticmethod
    def error_body(error: errors.AnswerableError, _status: int, _request_id: str) -> dict[str, Any]:
        return {"error": error.message, "error_type": error_type(error)}


class TeiOpenAI(Tei):
    """Errors of TEI's OpenAI-compatible route: `{"message", "code": status, "type": kind}`."""

    @staticmethod
    def error_body(error: errors.AnswerableError, status: int, _request_id: str) -> dict[str, Any]:
        return {"message": error.message, "code": status, "type": error_type(error)}


class TeiEmbed(EmbeddingOperation):
    """`{"inputs": …}` → `[[float]]`, a list of vectors even for one text."""

    api: type[Api] = Tei
    name = "tei_embed"
    answers_vectors = True
    summary = "Embed texts or token ids, in the API of text-embeddings-inference."
    truncate_hint = 'Send "truncate": true, and where to cut as "truncation_direction".'

    def fields(self) -> tuple[Field, ...]:
        limits = self.engine.limits
        text = TextType(limits.max_characters)
        return (
            Field(
                "inputs",
                InputsType(text, vocabulary_size=limits.vocabulary_size),
                "A text, a list of texts, token ids, or a list of those.",
                required=True,
            ),
            *truncation_fields(limits),
            prompt_name_field(limits),
            Field(
                "normalize",
                Boolean(),
                "Normalize vectors that were truncated to fewer dimensions. (The model's own "
                "normalization is part of its graph and always applies.)",
                default=True,
            ),
            dimensions_field("dimensions", limits),
            ADD_SPECIAL_TOKENS,
            OUTPUT_DTYPE,
            Field("parameters", Object(()), "Accepted if it is empty, and ignored."),
            _OPTIONS,
        )

    def respond(self, call: Call, /) -> Response:
        embeddings = self.embed(call, call.values["inputs"], field="inputs")
        return json_response(
            encode(embeddings.vectors, call.values["output_dtype"], "float"),
            headers=timing_headers(embeddings, call),
        )


class CompatibleEmbeddings(CreateEmbeddings):
    """TEI's own OpenAI-compatible route: OpenAI's request and answer, TEI's errors and headers."""

    api: type[Api] = TeiOpenAI
    name = "tei_embeddings"
    summary = "Embed with OpenAI's API, with text-embeddings-inference's errors and headers."

    def headers(self, embeddings: Embeddings, call: Call, /) -> dict[str, str]:
        return timing_headers(embeddings, call)


class Similarity(EmbeddingOperation):
    """A sentence against others → the cosine of each."""

    api: type[Api] = Tei
    name = "tei_similarity"
    summary = "Compare a sentence with others."
    truncate_hint = 'Send "parameters": {"truncate": true}.'

    def fields(self) -> tuple[Field, ...]:
        limits = self.engine.limits
        text = TextType(limits.max_characters)
        sentences = InputsType(text, single=False)
        inputs = (
            Field("source_sentence", text, "The sentence to compare.", required=True),
            Field("sentences", sentences, "The sentences to compare it with.", required=True),
        )
        self._parameters = Object((*truncation_fields(limits), prompt_name_field(limits)))
        return (
            Field("inputs", Object(inputs), "What to compare.", required=True),
            Field("parameters", self._parameters, "How to embed it."),
            _OPTIONS,
        )

    def respond(self, call: Call, /) -> Response:
        inputs = call.values["inputs"]
        embeddings = self.embed(
            call,
            Inputs(texts=[inputs["source_sentence"], *inputs["sentences"].texts]),
            field="inputs",
            options=call.values["parameters"] or self._parameters.check({}),
        )
        vectors = embeddings.vectors
        return json_response(vectors[1:] @ vectors[0], headers=timing_headers(embeddings, call))


class Tokenize(EmbeddingOperation):
    """Texts → their tokens, as the vocabulary spells them; TEI's places in the text are null."""

    api: type[Api] = Tei
    name = "tei_tokenize"
    summary = "Tokenize texts."

    def fields(self) -> tuple[Field, ...]:
        limits = self.engine.limits
        inputs = InputsType(TextType(limits.max_characters))
        return (
            Field("inputs", inputs, "A text, or a list of texts.", required=True),
            Field(
                "add_special_tokens",
                Boolean(),
                "Also return the special tokens around each text.",
                default=True,
            ),
            prompt_name_field(limits),
        )

    def respond(self, call: Call, /) -> Response:
        values = call.values
        engine = self.engine
        prompt = engine.request_tokenizer.prompt_text(values["prompt_name"])
        tokenizer = engine.tokenizer
        around = values["add_special_tokens"]
        prefix = [self._token(token, special=True) for token in tokenizer.prefix if around]
        suffix = [self._token(token, special=True) for token in tokenizer.suffix if around]
        answer = []
        inputs = values["inputs"]
        for position, text in enumerate(inputs.texts):
            try:
                engine.request_tokenizer.check_characters(text, position)
            except errors.InputError as error:
                # The field is the text's own, where an embedding names the list.
                name = f"inputs[{position}]" if inputs.is_list else "inputs"
                raise error.named(name, field=name) from None
            tokens = map(self._token, tokenizer.encode(prompt + text))
            answer.append([*prefix, *tokens, *suffix])
        return json_response(answer)

    def _token(self, token: int, *, special: bool = False) -> dict[str, Any]:
        text = self.engine.tokenizer.token(token)
        return {"id": token, "text": text, "special": special, "start": None, "stop": None}


class Decode(EmbeddingOperation):
    """Token ids → the text of each list."""

    api: type[Api] = Tei
    name = "tei_decode"
    summary = "Turn token ids into text, where the model's tokenizer can."

    def fields(self) -> tuple[Field, ...]:
        limits = self.engine.limits
        text = TextType(limits.max_characters)
        ids = InputsType(text, vocabulary_size=limits.vocabulary_size, texts=False)
        skipped = "Leave special tokens out of the text."
        return (
            Field("ids", ids, "Token ids, or a list of lists of them.", required=True),
            Field("skip_special_tokens", Boolean(), skipped, default=True),
        )

    def respond(self, call: Call, /) -> Response:
        # Not every tokenizer can decode, so `Tokenizer` does not declare the method.
        decode = getattr(self.engine.tokenizer, "decode", None)
        if decode is None:
            # The tables of the fast tokenizers are made for encoding: they have neither the
            # decoder of tokenizer.json nor its list of special tokens.
            raise errors.WrongModelError(
                "Backend error: `decode` is not available: the compiled tokenizer only encodes"
            )
        skip = call.values["skip_special_tokens"]
        return json_response(
            [decode(list(ids), skip_special_tokens=skip) for ids in call.values["ids"].token_ids]
        )


class TeiInfo(EmbeddingOperation, Described):
    """The model, its settings and all limits: TEI's fields, and ours."""

    api: type[Api] = Tei
    name = "info"
    summary = "Return the model, its settings and all limits."

    def description(self) -> dict[str, Any]:
        engine, index = self.engine, self.model.search_index
        limits = engine.limits
        batches = {
            str(dimensions): {
                dtype: {
                    encoding: largest_batch(dimensions, dtype, encoding) for encoding in ENCODINGS
                }
                for dtype in DTYPES
            }
            for dimensions in limits.dimensions
        }
        return {
            **described_model(self.model, limits),
            # Pooling is part of the compiled graph.
            "model_type": {"embedding": {"pooling": "graph"}},
            "max_client_batch_size": largest_batch(limits.full_dimensions, "float", "float"),
            "vector_space": engine.vector_space(),
            "dimensions": list(limits.dimensions),
            "prompts": list(limits.prompts),
            "default_prompt": limits.default_prompt,
            "max_batch_sizes": batches,
            "index_entries": None if index is None else index.entries,
        }


def described_model(model: ServedModel, limits: Limits | Scorer) -> dict[str, Any]:
    """Return the fields of `/info` that models of all kinds have."""
    manifest = model.loaded.manifest
    return {
        "model_id": manifest.model.name,
        "model_sha": manifest.model.revision,
        "model_dtype": manifest.precision,
        # Of the two of a model in int8, the one that this processor runs.
        "graph": model.loaded.graph_file,
        "served_model_name": manifest.model.name,
        "max_concurrent_requests": model.max_concurrent_requests,
        "max_input_length": limits.max_tokens,
        "max_batch_tokens": max(model.loaded.run_tokens, limits.max_tokens),
        "max_batch_requests": None,
        "auto_truncate": limits.truncate != "refuse",
        # Each request is tokenized in another thread.
        "tokenization_workers": model.max_concurrent_requests,
        "version": __version__,
        "sha": None,
        "docker_label": None,
        "truncate": limits.truncate,
        "max_characters": limits.max_characters,
        "max_request_bytes": MAX_REQUEST_BYTES,
        "max_response_bytes": MAX_RESPONSE_BYTES,
        # What the compiler computed, for a comparison from outside.
        "golden": [entry._asdict() for entry in manifest.golden],
    }


def timing_headers(embeddings: Embeddings, call: Call, kind: str = "vector") -> dict[str, str]:
    """Return TEI's headers, with times in whole milliseconds, and that of the space of a kind."""
    total = f"{(time.perf_counter() - call.record.started) * 1000:.0f}"
    return {
        "x-compute-type": "cpu+optimized",
        "x-compute-time": total,
        "x-compute-characters": str(embeddings.characters),
        "x-compute-tokens": str(sum(embeddings.tokens)),
        "x-total-time": total,
        "x-tokenization-time": f"{embeddings.timings.tokenization * 1000:.0f}",
        # On Lambda nothing queues inside: it starts another execution environment, or answers 429.
        "x-queue-time": f"{embeddings.timings.queue * 1000:.0f}",
        "x-inference-time": f"{embeddings.timings.inference * 1000:.0f}",
        f"x-{kind}-space": embeddings.vector_space,
    }
