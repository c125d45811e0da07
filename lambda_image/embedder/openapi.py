"""Makes the OpenAPI 3.1 document of what is served, from the types that validate the requests.

https://spec.openapis.org/oas/v3.1.1.html
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from embedder import __version__
from embedder.artifact import Manifest
from embedder.dialects.operation import Operation

__all__ = ["document"]

_DESCRIPTION = (
    "Text embeddings from one model, in several dialects. Every answer names its vector space in "
    "the header x-vector-space: vectors of two spaces must not be mixed. A request and an answer "
    "have 6 MB at the most; GET /info tells the largest batches."
)


def document(routes: Mapping[str, Mapping[str, Operation]], manifest: Manifest) -> dict[str, Any]:
    """Return the document.

    Args:
        routes: path → method → operation.
        manifest: names the model and its vector space.
    """
    dialects = {operation.dialect for methods in routes.values() for operation in methods.values()}
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "Embedding Kit",
            "version": __version__,
            "summary": f"{manifest.model.name}, vector space {manifest.vector_space}",
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        # A Function URL has no path of its own: the document is served beside what it describes.
        "servers": [{"url": "/"}],
        "paths": {
            path: {method.lower(): _operation(operation) for method, operation in methods.items()}
            for path, methods in routes.items()
        },
        "components": {
            "schemas": {
                f"{dialect.__name__}Error": dialect.error_schema
                for dialect in sorted(dialects, key=lambda dialect: dialect.__name__)
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
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.dialect.name],
        "responses": {
            "200": {
                "description": "OK",
                "headers": {
                    "x-request-id": {"schema": {"type": "string"}},
                    "x-vector-space": {"schema": {"type": "string"}},
                },
                "content": {"application/json": {"schema": operation.result}},
            },
            **{
                str(status): _error(operation, HTTPStatus(status).phrase)
                for status in operation.dialect.error_statuses
            },
        },
    }
    if operation.body is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": operation.body.schema}},
        }
    return described


def _error(operation: Operation, phrase: str) -> dict[str, Any]:
    reference = f"#/components/schemas/{operation.dialect.__name__}Error"
    return {
        "description": phrase,
        "content": {"application/json": {"schema": {"$ref": reference}}},
    }
