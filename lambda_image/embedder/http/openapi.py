"""`GET /openapi.json`: the OpenAPI 3.1 document of all operations.

It is built from the types that validate the requests, so the two cannot disagree.
https://spec.openapis.org/oas/v3.1.1.html
"""

from collections.abc import Mapping
from typing import Any

import orjson

from embedder import __version__
from embedder.core.artifact import Manifest
from embedder.http.apis.native import Native
from embedder.http.apis.operation import JSON, Api, Call, Model, Operation
from embedder.http.apis.schemas import STRING, object_of
from embedder.http.http_types import Response

__all__ = ["Document"]

_DESCRIPTION = (
    "Text embeddings from one model, through several APIs. Every answer names its vector space in "
    "the header x-vector-space: vectors of two spaces must not be mixed. A request and a "
    "response have at most 6 MB; GET /info lists the largest batches."
)


class Document(Operation):
    """The document, built when it is first asked for.

    Args:
        model: The model that is served.
        operations: Path → method → operation: all that is served, but for the document.
        path: Where the document is served.
    """

    api: type[Api] = Native
    name = "openapi"
    summary = "Return this OpenAPI document."

    def __init__(
        self, model: Model, operations: Mapping[str, Mapping[str, Operation]], *, path: str
    ) -> None:
        super().__init__(model)
        self._operations = {**operations, path: {"GET": self}}
        self._body: bytes | None = None

    def respond(self, _call: Call, /) -> Response:
        if self._body is None:
            self._body = orjson.dumps(_document(self._operations, self.model.engine.manifest))
        return Response(status=200, body=self._body, headers=JSON)

    @property
    def result(self) -> dict[str, Any]:
        return object_of(openapi=STRING, info={"type": "object"}, paths={"type": "object"})


def _document(routes: Mapping[str, Mapping[str, Operation]], manifest: Manifest) -> dict[str, Any]:
    apis = {
        choice.api
        for methods in routes.values()
        for operation in methods.values()
        for choice in operation.choices
    }
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Embedding Kit",
            "version": __version__,
            "summary": f"{manifest.model.name}, vector space {manifest.vector_space}",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # A Function URL has no base path: the document is served beside the operations.
        "servers": [{"url": "/"}],
        "paths": {
            path: {method.lower(): _operation(operation) for method, operation in methods.items()}
            for path, methods in routes.items()
        },
        "components": {
            "schemas": {
                f"{api.__name__}Error": api.error_schema
                for api in sorted(apis, key=lambda api: api.__name__)
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


def _operation(operation: Operation) -> dict[str, Any]:
    # Imported when it is needed: no cold start pays for it.
    from http import HTTPStatus  # noqa: PLC0415

    choices = operation.choices
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.api.name],
        "responses": {},
    }
    results = [choice.result for choice in choices if choice.result is not None]
    if results:
        described["responses"]["200"] = {
            "description": "OK",
            "headers": {
                "x-request-id": {"schema": {"type": "string"}},
                "x-vector-space": {"schema": {"type": "string"}},
                "x-cold-start": {
                    "description": "Only in the first response of an execution environment.",
                    "schema": {"const": "true"},
                },
            },
            "content": {"application/json": {"schema": _any_of(results)}},
        }
    errors: dict[int, list[dict[str, Any]]] = {}
    for choice in choices:
        reference = {"$ref": f"#/components/schemas/{choice.api.__name__}Error"}
        for status in (*choice.api.error_statuses, *choice.more_statuses):
            errors.setdefault(status, []).append(reference)
    for status, schemas in sorted(errors.items()):
        described["responses"][str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": {"application/json": {"schema": _any_of(schemas)}},
        }
    bodies = [choice.body.schema for choice in choices if choice.body is not None]
    if bodies:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _any_of(bodies)}},
        }
    return described


def _any_of(schemas: list[dict[str, Any]]) -> dict[str, Any]:
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}
