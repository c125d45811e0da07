"""The OpenAPI 3.1 document of all operations: what `GET /openapi.json` returns.

The requests are described by the types that validate them, so the two cannot disagree. The answers
are described here. https://spec.openapis.org/oas/v3.1.1.html

Imported on demand: no cold start pays for it.
"""

from collections.abc import Mapping
from typing import Any

from embedder import __version__
from embedder.core.artifact import Manifest
from embedder.http.apis.embedding_server import EmbeddingServer
from embedder.http.apis.native import Native
from embedder.http.apis.openai import OpenAI
from embedder.http.apis.operation import Api, Operation
from embedder.http.apis.rerank import Cohere
from embedder.http.apis.tei import Tei, TeiOpenAI
from embedder.http.status_phrases import PHRASES

Schema = dict[str, Any]

#: Descriptions of the endpoint, by the model's task.
_DESCRIPTIONS = {
    "classify": (
        "Labels of texts, with scores, from one model, a classifier. Every answer names its label "
        "space in the header x-label-space: scores of two spaces must not be compared. A request "
        "and a response have at most 6 MB."
    ),
    "embed": (
        "Text embeddings from one model, through several APIs. Every answer names its vector space "
        "in the header x-vector-space: vectors of two spaces must not be mixed. A request and a "
        "response have at most 6 MB; GET /info lists the largest batches."
    ),
    "rerank": (
        "Scores of pairs of texts from one model, a reranker. Every answer names its score space "
        "in the header x-score-space: scores of two spaces must not be compared. A request and a "
        "response have at most 6 MB."
    ),
    "sparse": (
        "Sparse vectors of texts from one model: a weight for each token of its vocabulary, of "
        "which most are 0. Every answer names its vector space in the header x-vector-space: "
        "vectors of two spaces must not be mixed. A request and a response have at most 6 MB."
    ),
}


def _object(*, optional: Schema | None = None, **properties: Schema) -> Schema:
    """Describe an object that has all of these properties, and may have the optional ones."""
    every = {**(optional or {}), **properties}
    return {"type": "object", "properties": every, "required": list(properties)}


def _list(items: Schema, **more: int) -> Schema:
    return {"type": "array", "items": items, **more}


_INTEGER, _NUMBER, _STRING = {"type": "integer"}, {"type": "number"}, {"type": "string"}
_NATURAL = {"type": "integer", "minimum": 0}
_POSITIVE = {"type": "integer", "minimum": 1}
_INTEGER_OR_NULL = {"type": ["integer", "null"]}
_STRING_OR_NULL = {"type": ["string", "null"]}
_BOOLEAN, _OBJECT, _NULL = {"type": "boolean"}, {"type": "object"}, {"type": "null"}
_NUMBERS = _list(_NUMBER, minItems=1)
_VECTOR = {"anyOf": [_NUMBERS, {"type": "string", "contentEncoding": "base64"}]}
#: Tokens as the model saw them, special tokens and prompts included.
_USAGE = _object(prompt_tokens=_INTEGER, total_tokens=_INTEGER)


#: What an answer may have besides: why the vectors of some inputs say little, and their places.
_WARNING = _object(code={"const": "unknown_tokens"}, message=_STRING, inputs=_list(_NATURAL))
_WARNED = {"warnings": _list(_WARNING, minItems=1)}


def _embedded(vector: Schema, **more: Schema) -> Schema:
    """Describe the answer of `POST /`: a vector, or a list of them."""
    either = {"embedding": vector, "embeddings": _list(vector)}
    described = _object(optional=either | _WARNED, **more, tokens=_INTEGER, vector_space=_STRING)
    return {**described, "oneOf": [{"required": [name]} for name in either]}


_SPARSE_VECTOR = _object(indices=_list(_NATURAL), values=_list(_NUMBER))

_MATCH = _object(
    text=_STRING_OR_NULL, index=_INTEGER_OR_NULL, id=_STRING, score=_NUMBER, metadata=_OBJECT
)
_NUMBER_OF_EACH = {"type": "object", "additionalProperties": _NUMBER}
_RESULT = _object(
    text=_STRING_OR_NULL,
    source=_STRING_OR_NULL,
    heading=_STRING_OR_NULL,
    score=_NUMBER,
    scores=_NUMBER_OF_EACH,
    ranks={"type": "object", "additionalProperties": _POSITIVE},
    id=_STRING,
    index=_INTEGER_OR_NULL,
    metadata=_OBJECT,
)
_EMBEDDINGS = _object(
    id=_STRING,
    object={"const": "list"},
    data=_list(_object(object={"const": "embedding"}, index=_INTEGER, embedding=_VECTOR)),
    model=_STRING,
    usage=_USAGE,
    vector_space=_STRING,
)
_MODEL = _object(
    id=_STRING, owned_by=_STRING, vector_space=_STRING, object={"const": "model"}, created=_INTEGER
)
_INFINITY_MODEL = _object(
    id=_STRING,
    object={"const": "model"},
    created=_INTEGER,
    stats=_object(),
    optional=dict.fromkeys(("vector_space", "score_space", "label_space"), _STRING),
)
_TOKEN = _object(id=_NATURAL, text=_STRING, special=_BOOLEAN, start=_NULL, stop=_NULL)
_GOLDEN = _object(text=_STRING, prompt=_STRING_OR_NULL, embedding_head=_list(_NUMBER))
_GOLDEN_TERMS = _object(
    text=_STRING, prompt=_STRING_OR_NULL, indices=_list(_INTEGER), values=_list(_NUMBER)
)

_RANKED = _object(index=_INTEGER, score=_NUMBER, optional={"text": _STRING})
_DOCUMENT_RANKED = _object(
    index=_INTEGER,
    relevance_score=_NUMBER,
    optional={"logit": _NUMBER, "document": _object(text=_STRING)},
)
_DOCUMENTS_RANKED = _object(
    id=_STRING,
    object={"enum": ["list", "rerank"]},
    model=_STRING,
    results=_list(_DOCUMENT_RANKED, minItems=1),
    meta=_object(api_version=_object(version=_STRING), tokens=_object(input_tokens=_INTEGER)),
    usage=_USAGE,
    score_space=_STRING,
)
_PREDICTIONS = _list(_object(score=_NUMBER, label=_STRING), minItems=1)
_LABELS = {"classification": _PREDICTIONS, "classifications": _list(_PREDICTIONS)}

_INFO_STRINGS = ("model_id", "model_sha", "model_dtype", "graph", "served_model_name", "version")
_INFO_NUMBERS = (
    "max_concurrent_requests",
    "max_input_length",
    "max_batch_tokens",
    "max_client_batch_size",
    "tokenization_workers",
    "max_characters",
    "max_request_bytes",
    "max_response_bytes",
)
#: What a sparse encoder does not have.
_DENSE = ("max_client_batch_size", "dimensions", "max_batch_sizes")
#: What a reranker and a classifier do not have.
_EMBEDDING = (
    *("vector_space", "dimensions", "prompts", "default_prompt", "max_batch_sizes"),
    "index_entries",
)


def _info(*left_out: str, **more: Schema) -> Schema:
    """Describe the answer of `/info` for a kind of model: some fields are left out, some added."""
    named: Schema = {
        **dict.fromkeys((*_INFO_STRINGS, "vector_space", "truncate"), _STRING),
        **dict.fromkeys(_INFO_NUMBERS, _POSITIVE),
        "model_type": _OBJECT,
        "auto_truncate": _BOOLEAN,
        "dimensions": _list(_INTEGER),
        "prompts": _list(_STRING),
        "default_prompt": _STRING_OR_NULL,
        "max_batch_sizes": _OBJECT,
        "index_entries": _INTEGER_OR_NULL,
        **more,
    }
    always = (*_INFO_STRINGS, *_INFO_NUMBERS, "model_type", "auto_truncate", "vector_space")
    properties = {name: schema for name, schema in named.items() if name not in left_out}
    required = [name for name in (*always, "score_space", "label_space") if name in properties]
    return {"type": "object", "properties": properties, "required": required}


#: The body of each operation's answer.
_ANSWERS: Mapping[str, Schema] = {
    "embed": _embedded(_VECTOR, size=_INTEGER),
    "similar": _object(results=_list(_MATCH), vector_space=_STRING, optional=_WARNED),
    "search": _object(
        results=_list(_RESULT),
        vector_space=_STRING,
        sparse_space=_STRING_OR_NULL,
        score_space=_STRING_OR_NULL,
        timings=_NUMBER_OF_EACH,
        optional=_WARNED,
    ),
    "health": _object(status=_STRING, model=_STRING, vector_space=_STRING),
    "create_embeddings": _EMBEDDINGS,
    "list_models": _object(object={"const": "list"}, data=_list(_MODEL)),
    "infinity_models": _object(object={"const": "list"}, data=_list(_INFINITY_MODEL)),
    "tei_embed": _list(_NUMBERS, minItems=1),
    "tei_embeddings": _EMBEDDINGS,
    "tei_similarity": _list(_NUMBER),
    "tei_tokenize": _list(_list(_TOKEN)),
    "tei_decode": _list(_STRING),
    "info": _info(golden=_list(_GOLDEN)),
    "server_embed": _object(
        data=_list(_object(embedding=_NUMBERS, index=_INTEGER)),
        usage=_USAGE,
        timings=_object(tokenization=_STRING, queue=_STRING, inference=_STRING),
        vector_space=_STRING,
    ),
    "sparse_embed": _embedded(_SPARSE_VECTOR),
    "tei_embed_sparse": _list(_list(_object(index=_NATURAL, value=_NUMBER)), minItems=1),
    "sparse_info": _info(*_DENSE, vocabulary_size=_POSITIVE, golden=_list(_GOLDEN_TERMS)),
    "rerank_health": _object(status=_STRING, model=_STRING, score_space=_STRING),
    "rerank_info": _info(
        *_EMBEDDING,
        score_space=_STRING,
        activation=_STRING,
        golden=_list(_object(query=_STRING, passage=_STRING, logits=_list(_NUMBER))),
    ),
    "tei_rerank": _list(_RANKED, minItems=1),
    "cohere_rerank": _DOCUMENTS_RANKED,
    "cohere_rerank_v1": _DOCUMENTS_RANKED,
    "infinity_rerank": _DOCUMENTS_RANKED,
    "tei_predict": {"anyOf": [_PREDICTIONS, _list(_PREDICTIONS)]},
    "classify": {
        **_object(optional=_LABELS, tokens=_INTEGER, label_space=_STRING),
        "oneOf": [{"required": [name]} for name in _LABELS],
    },
    "infinity_classify": _object(
        id=_STRING,
        object={"const": "classify"},
        created=_INTEGER,
        model=_STRING,
        data=_list(_PREDICTIONS, minItems=1),
        usage=_USAGE,
        label_space=_STRING,
    ),
    "classify_root": {"anyOf": [_PREDICTIONS, _list(_PREDICTIONS)]},
    "hugging_face_classify": _list(_PREDICTIONS, minItems=1),
    "classify_health": _object(status=_STRING, model=_STRING, label_space=_STRING),
    "classify_info": _info(
        *_EMBEDDING,
        label_space=_STRING,
        activation=_STRING,
        golden=_list(_object(text=_STRING, logits=_list(_NUMBER))),
    ),
    "openapi": _object(openapi=_STRING, info=_OBJECT, paths=_OBJECT),
}

_NATIVE_ERROR = _object(error=_STRING, code=_STRING, field=_STRING_OR_NULL, request_id=_STRING)
_OPENAI_ERROR = _object(
    message=_STRING,
    type={"enum": ["invalid_request_error", "server_error"]},
    param=_STRING_OR_NULL,
    code=_STRING_OR_NULL,
)
_TEI_KIND = {"enum": ["Unhealthy", "Backend", "Overloaded", "Validation", "Tokenizer", "Empty"]}
#: The body of each API's errors.
_ERRORS: Mapping[type[Api], Schema] = {
    Cohere: _object(
        id=_STRING, message=_STRING, detail=_STRING, code=_STRING, field=_STRING_OR_NULL
    ),
    EmbeddingServer: _NATIVE_ERROR,
    Native: _NATIVE_ERROR,
    OpenAI: _object(error=_OPENAI_ERROR),
    Tei: _object(error=_STRING, error_type=_TEI_KIND),
    TeiOpenAI: _object(message=_STRING, code=_INTEGER, type=_TEI_KIND),
}

_HEADERS = {
    "x-request-id": {"schema": _STRING},
    "x-vector-space": {"schema": _STRING},
    "x-cold-start": {
        "description": "Only in the first response of an execution environment.",
        "schema": {"const": "true"},
    },
}


def document(routes: Mapping[str, Mapping[str, Operation]], *manifests: Manifest) -> Schema:
    """Describe the operations, by path and method, of the models with these manifests."""
    summaries = [
        f"{manifest.model.name}, {manifest.space_kind} space {manifest.vector_space}"
        for manifest in manifests
    ]
    served = [operation for methods in routes.values() for operation in methods.values()]
    apis = {choice.api for operation in served for choice in operation.choices}
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Embedding Kit",
            "version": __version__,
            "summary": "; ".join(summaries),
            "description": " ".join(_DESCRIPTIONS[manifest.task] for manifest in manifests),
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # A Function URL has no base path: the document is served next to the operations.
        "servers": [{"url": "/"}],
        "paths": {
            path: {method.lower(): _operation(operation) for method, operation in methods.items()}
            for path, methods in routes.items()
        },
        "components": {
            "schemas": {
                f"{api.__name__}Error": schema for api, schema in _ERRORS.items() if api in apis
            },
            "securitySchemes": {
                "sigv4": {
                    "type": "apiKey",
                    "name": "Authorization",
                    "in": "header",
                    "description": "AWS Signature Version 4, service lambda.",
                }
            },
        },
        "security": [{"sigv4": []}],
    }


def _operation(operation: Operation) -> Schema:
    choices = operation.choices
    responses: Schema = {
        "200": {
            "description": "OK",
            "headers": _HEADERS,
            **_json([_ANSWERS[choice.name] for choice in choices]),
        }
    }
    errors: dict[int, list[Schema]] = {}
    for choice in choices:
        reference = {"$ref": f"#/components/schemas/{choice.api.__name__}Error"}
        for status in (*choice.api.error_statuses, *choice.more_statuses):
            errors.setdefault(status, []).append(reference)
    for status, schemas in sorted(errors.items()):
        responses[str(status)] = {"description": PHRASES[status], **_json(schemas)}
    described = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.api.name],
        "responses": responses,
    }
    bodies = [choice.body.schema for choice in choices if choice.body is not None]
    if bodies:
        described["requestBody"] = {"required": True, **_json(bodies)}
    return described


def _json(schemas: list[Schema]) -> Schema:
    schema = schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
    return {"content": {"application/json": {"schema": schema}}}
