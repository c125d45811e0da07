"""Fixtures for engines and services with the small model."""

from collections.abc import Callable, Sequence

import pytest

from embedder.core.engine import Engine
from embedder.http.router import Service
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of, service_of


@pytest.fixture
def session() -> HashSession:
    return HashSession()


@pytest.fixture
def make_engine(session: HashSession) -> Callable[..., Engine]:
    """Return a function that makes an engine from options of the manifest and of the engine."""

    def make(**options: object) -> Engine:
        own = {
            k: options.pop(k)
            for k in ("truncate", "max_characters", "cache_entries")
            if k in options
        }
        return Engine(manifest_of(**options), WordTokenizer(), session, **own)  # type: ignore[arg-type]

    return make


@pytest.fixture
def make_service(make_engine: Callable[..., Engine]) -> Callable[..., Service]:
    """Return a function that makes a service; `index` is the list of texts to index."""

    def make(*, index: Sequence[str] | None = None, **options: object) -> Service:
        return service_of(make_engine(**options), index)

    return make


@pytest.fixture
def service(make_service: Callable[..., Service]) -> Service:
    return make_service()
