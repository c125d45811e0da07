"""Routes a request to the operation of its API and returns a response.

`ROUTES` is the table of all paths of an embedding model; those of other kinds are in modules of
`apis`, which are imported on demand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import urandom

import orjson

from embedder.core import errors
from embedder.core.artifact import TASKS
from embedder.core.errors import fault
from embedder.http.apis import embedding_server, native, openai, tei
from embedder.http.apis.operation import JSON, Alternative, Api, Call, Operation, ServedModel
from embedder.http.http_types import MAX_REQUEST_BYTES, Request, Response
from embedder.http.json_types import quote_name
from embedder.http.telemetry import RequestRecord, Telemetry


class _Root(native.Embed):
    """The kit's own `Embed`, and TEI's where the body has `inputs`.

    TEI serves its `/embed` at the root as well, and clients such as `@huggingface/inference` with
    `.endpoint(url)` send their requests there. The kit's own API has no field of that name.
    """

    summary = 'Embed a text, or several. A body with "inputs" is answered as by POST /embed.'
    alternative = Alternative(tei.TeiEmbed, "inputs", ("text", "texts"))


class _Document(Operation):
    """The OpenAPI document, made when it is first asked for."""

    api = native.Native
    name = "openapi"
    summary = "Return this OpenAPI document."
    _body = b""

    def respond(self, _call: Call, /) -> Response:
        if not self._body:
            from embedder.http.openapi import document  # noqa: PLC0415 - on demand

            counterparts = self.counterparts.values()
            models = [self.model, *(operation.model for operation in counterparts)]
            manifests = [model.loaded.manifest for model in models]
            self._body = orjson.dumps(document(operations(*models), *manifests))
        return Response(status=200, body=self._body, headers=JSON)


#: What an error adds for paths that are served elsewhere.
_ELSEWHERE = {
    "/chunk": " Documents are divided on your own machine: by `embed chunk FILE`, next to "
    "`scripts/serve`, which serves this path."
}
#: Path → method → operation.
ROUTES: dict[str, dict[str, type[Operation]]] = {
    "/": {"POST": _Root},
    "/similar": {"POST": native.Similar},
    "/health": {"GET": native.Health},
    "/v1/embeddings": {"POST": openai.CreateEmbeddings},
    "/v1/models": {"GET": openai.ListModels},
    "/models": {"GET": openai.InfinityModels},
    "/embed": {"POST": tei.TeiEmbed},
    "/embeddings": {"POST": tei.CompatibleEmbeddings},
    "/similarity": {"POST": tei.Similarity},
    "/tokenize": {"POST": tei.Tokenize},
    "/decode": {"POST": tei.Decode},
    "/info": {"GET": tei.TeiInfo},
    "/api/v1/embed": {"POST": embedding_server.ServerEmbed},
    "/openapi.json": {"GET": _Document},
}


def operations(*models: ServedModel) -> dict[str, dict[str, Operation]]:
    """Return the operations of these models, by path and method.

    Where several models have one, the first model's answers and has the others as counterparts:
    `/health` and `/info` are of all models.
    """
    types: dict[str, dict[str, list[tuple[ServedModel, type[Operation]]]]] = {}
    for model in models:
        for path, methods in _routes(model).items():
            for method, operation_type in methods.items():
                same = types.setdefault(path, {}).setdefault(method, [])
                same.append((model, operation_type))
    served = {
        path: {method: _joined(same) for method, same in methods.items()}
        for path, methods in types.items()
    }
    if models[0].word_index is not None:
        from embedder.http.apis.words import WordSimilar  # noqa: PLC0415 - on demand

        by_words = WordSimilar(models[0]._replace(search_index=models[0].word_index))
        similar = served["/similar"]["POST"]
        similar.counterparts = {**similar.counterparts, by_words.mode: by_words}
    if models[0].search_index is not None:
        from embedder.http.apis import search  # noqa: PLC0415 - on demand

        served["/search"] = {"POST": search.operation(served)}
    return served


def _joined(same: Sequence[tuple[ServedModel, type[Operation]]]) -> Operation:
    """Make the operation of the first model, with those of the others as its counterparts."""
    answering, answering_type = same[0]
    counterparts = {
        model.loaded.manifest.task: operation_type(model) for model, operation_type in same[1:]
    }
    return answering_type(answering, counterparts)


def _routes(model: ServedModel) -> Mapping[str, Mapping[str, type[Operation]]]:
    manifest = model.loaded.manifest
    if manifest.task == "embed":
        return ROUTES
    routes = _routes_of(manifest.task)
    # Several labels give no order to rank by.
    if manifest.task == "rerank" and manifest.scoring and len(manifest.scoring.labels) > 1:
        routes = {at: methods for at, methods in routes.items() if not at.endswith("/rerank")}
    return {**routes, "/openapi.json": {"GET": _Document}}


def _routes_of(task: str) -> Mapping[str, Mapping[str, type[Operation]]]:
    """Return the routes of the models of a task; only those of embedding models are loaded."""
    match task:
        case "classify":
            from embedder.http.apis import classify  # noqa: PLC0415 - on demand

            return classify.ROUTES
        case "rerank":
            from embedder.http.apis import rerank  # noqa: PLC0415 - on demand

            return rerank.ROUTES
        case "sparse":
            from embedder.http.apis import sparse  # noqa: PLC0415 - on demand

            return sparse.ROUTES
    return ROUTES


def _elsewhere(path: str, kinds: Sequence[str]) -> str:
    """Return what an error adds for a path that models of other kinds than these serve, if any."""
    tasks = {kind: task for task, kind in TASKS.items() if kind not in kinds}
    servers = " or ".join(kind for kind, task in tasks.items() if path in _routes_of(task))
    return _ELSEWHERE.get(path) or (f" {servers.capitalize()} serves it." if servers else "")


class Router:
    """Answers requests for a model, and for models of other kinds besides it.

    Without telemetry nothing is recorded; with `mcp`, agents are answered at `POST /mcp`.
    """

    def __init__(
        self,
        model: ServedModel,
        *others: ServedModel,
        telemetry: Telemetry | None = None,
        mcp: bool = False,
    ) -> None:
        self.model = model
        self.models = (model, *others)
        self.telemetry = telemetry
        self._routes = operations(*self.models)
        if mcp:
            from embedder.http.apis.mcp import McpOperation  # noqa: PLC0415 - on demand

            self._routes["/mcp"] = {"POST": McpOperation(self._routes)}

    def handle(self, request: Request, record: RequestRecord | None = None) -> Response:
        """Respond to a request and record it; every error becomes a response."""
        record = record or RequestRecord(request.id or new_request_id())
        record.request_bytes = len(request.body)
        response = self._respond(request, record)
        if request.method == "HEAD":
            response = response._replace(body=b"")
        return self._finish(response, record)

    def error_response(
        self, error: errors.AnswerableError, record: RequestRecord, *, path: str = ""
    ) -> Response:
        """Respond to an invalid request, in the API of its path if it has one."""
        api = self._api_of(path.rstrip("/") or "/")
        record.api, record.error = api.name, error.code
        return self._finish(api.error(error, record.id), record)

    def _finish(self, response: Response, record: RequestRecord) -> Response:
        headers = {**response.headers, "x-request-id": record.id}
        if self.telemetry is not None and self.telemetry.cold:
            # A caller cannot see otherwise that it waited for an initialization.
            headers["x-cold-start"] = "true"
        response = Response(status=response.status, body=response.body, headers=headers)
        record.status = response.status
        record.response_bytes = len(response.body)
        if self.telemetry is not None:
            self.telemetry.write(record)
        return response

    def _respond(self, request: Request, record: RequestRecord) -> Response:
        path = request.path.rstrip("/") or "/"
        api = self._api_of(path)
        record.api = api.name
        try:
            operation = self._route(request, path).chosen(request)
            api = operation.api
            record.api, record.operation = api.name, operation.name
            return operation.serve(request, record)
        except errors.AnswerableError as error:
            record.error, record.field = error.code, error.field
            if isinstance(error, errors.ServerError):
                record.fault = fault(error.__cause__ or error)
            return api.error(error, record.id)
        except Exception as error:  # The caller gets a response, and the log the place.
            record.error = errors.ServerError.code
            record.fault = fault(error)
            return api.error(errors.ServerError(), record.id)

    def _route(self, request: Request, path: str) -> Operation:
        if len(request.body) > MAX_REQUEST_BYTES:
            raise errors.BodyTooLargeError(
                f"The body has {len(request.body)} bytes; at most {MAX_REQUEST_BYTES} are allowed."
            )
        methods = self._routes.get(path)
        if methods is None:
            kinds = [model.loaded.manifest.kind for model in self.models]
            served = [f"{method} {at}" for at, all_ in self._routes.items() for method in all_]
            raise errors.UnknownPathError(
                f"Nothing is served at this path of {' and '.join(kinds)}. Served: "
                f"{', '.join(served)}.{_elsewhere(path, kinds)}"
            )
        method = "GET" if request.method == "HEAD" else request.method
        operation = methods.get(method)
        if operation is None:
            allowed = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])
            raise errors.WrongMethodError(
                f"This path is served by {allowed}; found {quote_name(request.method)}.",
                headers={"allow": allowed},
            )
        return operation

    def _api_of(self, path: str) -> type[Api]:
        """Return the API that reports a path, or a method on it, as not served."""
        methods = self._routes.get(path)
        if methods:
            return next(iter(methods.values())).api
        return openai.OpenAI if path.startswith("/v1/") else native.Native


def new_request_id() -> str:
    """Make an id as Lambda makes them, for a request that came without one."""
    # From the kernel, not from a generator: a snapshot would copy its state.
    number = urandom(16).hex()
    return "-".join((number[:8], number[8:12], number[12:16], number[16:20], number[20:]))
