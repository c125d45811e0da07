"""Routes a request to the operation of its API and returns a response.

`ROUTES` is the table of all paths of an embedding model; `apis.rerank` has those of a reranker.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from os import urandom
from typing import TYPE_CHECKING, Any

import orjson

from embedder.core import errors
from embedder.core.artifact import Artifact, Manifest, load_artifacts
from embedder.core.batching import TOKEN_BUDGET
from embedder.core.runtimes import InferenceSession
from embedder.core.search import Searchable, SearchIndex, load_index
from embedder.core.settings import DEFAULT_CACHE_ENTRIES, Settings
from embedder.http.apis import embedding_server, native, openai, tei
from embedder.http.apis.operation import JSON, Api, Call, Model, Operation, is_given
from embedder.http.http_types import MAX_REQUEST_BYTES, Request, Response
from embedder.http.json_types import quote_name
from embedder.http.telemetry import RequestRecord, Telemetry, fault

if TYPE_CHECKING:
    from embedder.core.engine import Engine
    from embedder.http.search_prefixes import SearchPrefixes


#: What Python, numpy, ONNX Runtime and a request take besides weights. Source: docs/performance.md.
_PROGRAM_MB = 63


class _Root(native.Embed):
    """The kit's own `Embed`, and TEI's where the body has `inputs`.

    TEI serves its `/embed` at the root as well, and clients such as `@huggingface/inference` with
    `.endpoint(url)` send their requests there. The kit's own API has no field of that name.
    """

    summary = 'Embed a text, or several. A body with "inputs" is answered as by POST /embed.'

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self._tei = tei.Embed(model)

    def chosen(self, request: Request) -> Operation:
        tei_asked = is_given(request.body, "inputs", instead_of=("text", "texts"))
        return self._tei if tei_asked else self

    @property
    def choices(self) -> Sequence[Operation]:
        return (self, self._tei)


class _Document(Operation):
    """The OpenAPI document, made when it is first asked for."""

    api = native.Native
    name = "openapi"
    summary = "Return this OpenAPI document."
    _body = b""

    def respond(self, _call: Call, /) -> Response:
        if not self._body:
            from embedder.http.openapi import document  # noqa: PLC0415 - on demand

            models = (self.model, *(each.model for each in self.companions.values()))
            served = operations(*models)
            self._body = orjson.dumps(document(served, *(each.engine.manifest for each in models)))
        return Response(status=200, body=self._body, headers=JSON)


#: Path → method → operation.
ROUTES: dict[str, dict[str, type[Operation]]] = {
    "/": {"POST": _Root},
    "/similar": {"POST": native.Similar},
    "/chunk": {"POST": native.Chunk},
    "/health": {"GET": native.Health},
    "/v1/embeddings": {"POST": openai.CreateEmbeddings},
    "/v1/models": {"GET": openai.Models},
    "/models": {"GET": openai.InfinityModels},
    "/embed": {"POST": tei.Embed},
    "/embeddings": {"POST": tei.CompatibleEmbeddings},
    "/similarity": {"POST": tei.Similarity},
    "/tokenize": {"POST": tei.Tokenize},
    "/decode": {"POST": tei.Decode},
    "/info": {"GET": tei.Info},
    "/api/v1/embed": {"POST": embedding_server.ServerEmbed},
    "/openapi.json": {"GET": _Document},
}


def operations(*models: Model) -> dict[str, dict[str, Operation]]:
    """Return what is served of these models: of a path that several have, the first one's.

    It names the others too: `/health` and `/info` are of all models.
    """
    served: dict[str, dict[str, Operation]] = {}
    for model in models:
        for path, methods in _routes(model).items():
            for method, kind in methods.items():
                operation = kind(model)
                first = served.setdefault(path, {}).setdefault(method, operation)
                if first is not operation:
                    task = model.engine.manifest.task
                    first.companions = {**first.companions, task: operation}
    if models[0].search_index is not None:
        from embedder.http.apis import search  # noqa: PLC0415 - on demand

        similar: Any = served["/similar"]["POST"]
        ranks: Any = served.get("/rerank", {}).get("POST")
        served["/search"] = {"POST": search.Search(similar, ranks and ranks.reranker)}
    return served


def _routes(model: Model) -> Mapping[str, Mapping[str, type[Operation]]]:
    scoring = model.engine.manifest.scoring
    if model.engine.manifest.task == "embed":
        return ROUTES
    if scoring is None:
        from embedder.http.apis import sparse  # noqa: PLC0415 - on demand

        return {**sparse.ROUTES, "/openapi.json": {"GET": _Document}}
    from embedder.http.apis import rerank  # noqa: PLC0415 - on demand

    return {**rerank.routes(scoring), "/openapi.json": {"GET": _Document}}


class Router:
    """Answers requests for a model, and for companions of other kinds.

    Without telemetry nothing is recorded; with `mcp`, agents are answered at `POST /mcp`.
    """

    def __init__(
        self,
        model: Model,
        *companions: Model,
        telemetry: Telemetry | None = None,
        mcp: bool = False,
    ) -> None:
        self.model = model
        self.models = (model, *companions)
        self.telemetry = telemetry
        self._routes = operations(*self.models)
        if mcp:
            from embedder.http.apis.mcp import Door  # noqa: PLC0415 - on demand

            self._routes["/mcp"] = {"POST": Door(self._routes)}

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
        """Respond to what is not a valid request, in the API of its path if it has one."""
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
            kinds = " and ".join(model.engine.manifest.kind for model in self.models)
            served = [f"{method} {at}" for at, all_ in self._routes.items() for method in all_]
            raise errors.UnknownPathError(
                f"Nothing is served at this path of {kinds}. Served: {', '.join(served)}."
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


def build_router(
    settings: Settings,
    *,
    wrap: Callable[[InferenceSession], InferenceSession] | None = None,
    run_tokens: int = TOKEN_BUDGET,
    max_concurrent_requests: int = 1,
    telemetry: Telemetry | None = None,
) -> Router:
    """Load the artifact and the index, and put the router together, or raise a `StartError`.

    `wrap` gets the model's session and returns the one that the engine uses; for `run_tokens` see
    `Engine`. The caller gives it up to `max_concurrent_requests` at the same time. Without
    `telemetry`, no record of a request is written.
    """
    artifacts = load_artifacts(_artifact_folder(settings))
    if artifacts[1:]:
        _check_memory(artifacts, settings)
    prefixes, entries = _prefixes(settings), settings.cache_entries
    options: dict[str, Any] = {
        "threads": settings.threads,
        "truncate": settings.truncate,
        "max_characters": settings.max_characters,
        "cache_entries": DEFAULT_CACHE_ENTRIES if entries is None else entries,
        "wrap": wrap,
        "run_tokens": run_tokens,
    }
    models: list[Model] = []
    for artifact in artifacts:
        dense = models[0].search_index if models else None
        engine, index = _load(artifact, settings, options, alone=not artifacts[1:], dense=dense)
        models.append(Model(engine, index, max_concurrent_requests, prefixes))
    return Router(*models, telemetry=telemetry, mcp=settings.mcp)


def _load(
    artifact: Artifact,
    settings: Settings,
    options: Mapping[str, Any],
    *,
    alone: bool,
    dense: Searchable | None,
) -> tuple[Any, Searchable | None]:
    """Load a model with these options, and its index.

    `dense` is the index of the embedding model that is served together with this one.
    """
    # Each is imported when it is needed: neither kind of model pays for the other.
    if artifact.manifest.task == "embed":
        from embedder.core.engine import Engine  # noqa: PLC0415

        engine = Engine.load(artifact, **options)
        return engine, _index(settings, engine)
    if artifact.manifest.task == "sparse":
        from embedder.core.sparse import SparseEncoder  # noqa: PLC0415

        if alone and settings.cache_entries:
            raise errors.SettingsError(
                f"{artifact.manifest.model.name} is a sparse encoder, which keeps no vectors; "
                f"cache_entries must be 0 or unset; found {settings.cache_entries}."
            )
        encoder = SparseEncoder.load(artifact, **options)
        return encoder, _sparse_index(settings, artifact.manifest, dense, alone=alone)
    from embedder.core.reranker import Reranker  # noqa: PLC0415

    _check_reranker(artifact.manifest.model.name, settings, alone=alone)
    return Reranker.load(artifact, **options), None


def _check_memory(artifacts: Sequence[Artifact], settings: Settings) -> None:
    """Refuse models that together do not fit: Lambda would end the process without a message."""
    # The rows of a table are read from the file, and take no memory that is not given back.
    files = (entry for artifact in artifacts for entry in artifact.manifest.files.items())
    weights = sum(entry.bytes for name, entry in files if not name.endswith(".rows"))
    needed = _PROGRAM_MB + (weights >> 20)
    if settings.memory_mb is not None and settings.memory_mb < needed:
        names = " and ".join(artifact.manifest.model.name for artifact in artifacts)
        raise errors.SettingsError(
            f"{names} do not fit into the function's memory together; found "
            f"{settings.memory_mb} MB; allowed: function.memory_mb = {needed} or more."
        )


def _check_reranker(name: str, settings: Settings, *, alone: bool) -> None:
    """Refuse settings that only an embedding model can have."""
    if alone and (settings.index is not None or settings.vector_index is not None):
        raise errors.SettingsError(
            f"{name} is a reranker, which has no vectors to search with; it must have no search "
            "index."
        )
    if settings.truncate == "left":
        raise errors.SettingsError(
            f"{name} is a reranker: it cuts the ends of texts, so that truncate must be refuse or "
            "right; found left."
        )


def _artifact_folder(settings: Settings) -> str | os.PathLike[str]:
    if settings.artifact_location is None:
        return settings.artifact
    if settings.region is None:
        raise errors.SettingsError(
            "EMBEDDING_ARTIFACT_LOCATION needs AWS_REGION, the bucket's region."
        )
    # Imported when it is needed: botocore takes 200 ms of a start.
    from embedder.core.artifact_download import download  # noqa: PLC0415

    return download(
        settings.artifact_location,
        package=settings.artifact,
        temporary=settings.temporary,
        region=settings.region,
        endpoint=settings.s3_endpoint,
    )


def _index(settings: Settings, engine: Engine) -> Searchable | None:
    spaces = [engine.vector_space(dimensions) for dimensions in engine.limits.dimensions]
    if settings.vector_index is not None:
        # Imported when it is needed: TLS alone takes 30 ms of a start.
        from embedder.core.s3_vectors import open_index  # noqa: PLC0415

        return open_index(
            settings.vector_index, endpoint=settings.s3_vectors_endpoint, spaces=spaces
        )
    return None if settings.index is None else load_index(settings.index, spaces=spaces)


def _prefixes(settings: Settings) -> SearchPrefixes | None:
    if settings.search_prefixes is None:
        return None
    if settings.vector_index is None:
        raise errors.SettingsError(
            "EMBEDDING_SEARCH_PREFIXES limits searches of S3 Vectors; found no "
            "EMBEDDING_VECTOR_INDEX."
        )
    from embedder.http.search_prefixes import SearchPrefixes  # noqa: PLC0415 - on demand

    return SearchPrefixes(settings.search_prefixes)


def _sparse_index(
    settings: Settings, manifest: Manifest, dense: Searchable | None, *, alone: bool
) -> Searchable | None:
    """Return the carried postings, which have the texts of the vectors next to them, if any."""
    if alone and settings.vector_index is not None:
        raise errors.SettingsError(
            f"{manifest.model.name} is a sparse encoder, and S3 Vectors has dense vectors; "
            "its search index must be one that the image carries."
        )
    carried = dense if isinstance(dense, SearchIndex) else None
    if settings.index is None or (carried is None and not alone):
        return None
    from embedder.core.sparse import load_sparse_index  # noqa: PLC0415

    return load_sparse_index(settings.index, manifest, dense=carried)


def new_request_id() -> str:
    """Make an id as Lambda makes them, for a request that came without one."""
    # From the kernel, not from a generator: a snapshot would copy its state.
    number = urandom(16).hex()
    return "-".join((number[:8], number[8:12], number[12:16], number[16:20], number[20:]))
