"""Puts the program together: models of an artifact, their indexes, and the router above them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from embedder.core import errors
from embedder.core.artifact import Artifact, Manifest, load_artifacts
from embedder.core.planning import TOKEN_BUDGET
from embedder.core.settings import DEFAULT_CACHE_ENTRIES, EmbedderSettings
from embedder.http.apis.operation import ServedModel
from embedder.http.router import Router
from embedder.http.telemetry import Telemetry

if TYPE_CHECKING:  # a start imports what its models need
    from embedder.core.engine import Engine
    from embedder.core.loaded_model import LoadedModel
    from embedder.core.model_runner import InferenceSession
    from embedder.core.search import SearchIndex
    from embedder.http.search_prefixes import SearchPrefixes

#: What Python, numpy, ONNX Runtime and a request take besides weights. Source: docs/performance.md.
_PROGRAM_MB = 63


def build_router(
    settings: EmbedderSettings,
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
    models: list[ServedModel] = []
    for artifact in artifacts:
        dense = models[0].search_index if models else None
        loaded, index = _load(artifact, settings, options, alone=not artifacts[1:], dense=dense)
        words = _word_index(settings, index)
        models.append(ServedModel(loaded, index, max_concurrent_requests, prefixes, words))
    return Router(*models, telemetry=telemetry, mcp=settings.mcp)


def _load(
    artifact: Artifact,
    settings: EmbedderSettings,
    options: Mapping[str, Any],
    *,
    alone: bool,
    dense: SearchIndex | None,
) -> tuple[LoadedModel, SearchIndex | None]:
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
    _check_scorer(artifact.manifest, settings, alone=alone)
    if artifact.manifest.task == "classify":
        from embedder.core.classifier import Classifier  # noqa: PLC0415

        return Classifier.load(artifact, **options), None
    from embedder.core.reranker import Reranker  # noqa: PLC0415

    return Reranker.load(artifact, **options), None


def _check_memory(artifacts: Sequence[Artifact], settings: EmbedderSettings) -> None:
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


def _check_scorer(manifest: Manifest, settings: EmbedderSettings, *, alone: bool) -> None:
    """Refuse settings that only an embedding model can have."""
    what = f"{manifest.model.name} is {manifest.kind}"
    if alone and (settings.index is not None or settings.vector_index is not None):
        raise errors.SettingsError(
            f"{what}, which has no vectors to search with; it must have no search index."
        )
    if settings.truncate == "left" and manifest.task == "rerank":
        raise errors.SettingsError(
            f"{what}: it cuts the ends of texts, so that truncate must be refuse or "
            "right; found left."
        )


def _artifact_folder(settings: EmbedderSettings) -> str | os.PathLike[str]:
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


def _index(settings: EmbedderSettings, engine: Engine) -> SearchIndex | None:
    spaces = [engine.vector_space(dimensions) for dimensions in engine.limits.dimensions]
    if settings.vector_index is not None:
        # Imported when it is needed: TLS alone takes 30 ms of a start.
        from embedder.core.s3_vectors import open_index  # noqa: PLC0415

        return open_index(
            settings.vector_index, endpoint=settings.s3_vectors_endpoint, spaces=spaces
        )
    if settings.index is None:
        return None
    from embedder.core.search import load_index  # noqa: PLC0415

    return load_index(settings.index, spaces=spaces)


def _word_index(settings: EmbedderSettings, dense: SearchIndex | None) -> SearchIndex | None:
    """Return the words of the texts of local vectors, if the index has them."""
    if settings.index is None or dense is None:
        return None
    from embedder.core.search import WORDS_FILE, DenseIndex  # noqa: PLC0415

    if not isinstance(dense, DenseIndex):
        return None
    if not os.path.isfile(os.path.join(settings.index, WORDS_FILE)):
        return None
    from embedder.core.bm25 import load_word_index  # noqa: PLC0415

    return load_word_index(settings.index, dense)


def _prefixes(settings: EmbedderSettings) -> SearchPrefixes | None:
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
    settings: EmbedderSettings, manifest: Manifest, dense: SearchIndex | None, *, alone: bool
) -> SearchIndex | None:
    """Return the local postings, which have the texts of the vectors next to them, if any."""
    if alone and settings.vector_index is not None:
        raise errors.SettingsError(
            f"{manifest.model.name} is a sparse encoder, and S3 Vectors has dense vectors; "
            "its search index must be one that the image carries."
        )
    if settings.index is None:
        return None
    from embedder.core.search import DenseIndex  # noqa: PLC0415
    from embedder.core.sparse import load_sparse_index  # noqa: PLC0415

    local = dense if isinstance(dense, DenseIndex) else None
    if local is None and not alone:
        return None
    return load_sparse_index(settings.index, manifest, dense=local)
