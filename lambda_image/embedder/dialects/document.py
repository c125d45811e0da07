"""`GET /openapi.json`: the document of everything that is served."""

from collections.abc import Mapping
from typing import Any

import orjson

from embedder.dialects.native import Native
from embedder.dialects.operation import JSON, Call, Dialect, Model, Operation
from embedder.http import Response

__all__ = ["Document"]


class Document(Operation):
    """An OpenAPI 3.1 document, made from the types that validate."""

    dialect: type[Dialect] = Native
    name = "openapi"
    summary = "Tell this document."

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        #: Path → method → operation; given by the service, which knows them all.
        self.routes: Mapping[str, Mapping[str, Operation]] = {}
        self._body: bytes | None = None

    def answer(self, _call: Call, /) -> Response:
        """See `Operation`."""
        if self._body is None:
            # Imported when it is asked for: no cold start pays for it.
            from embedder.openapi import document  # noqa: PLC0415

            self._body = orjson.dumps(document(self.routes, self.model.engine.manifest))
        return Response(status=200, body=self._body, headers=JSON)

    @property
    def result(self) -> dict[str, Any]:
        """See `Operation`."""
        return {
            "type": "object",
            "properties": {
                "openapi": {"type": "string"},
                "info": {"type": "object"},
                "paths": {"type": "object"},
            },
            "required": ["openapi", "info", "paths"],
        }
