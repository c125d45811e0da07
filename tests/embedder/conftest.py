"""Fixtures for engines and routers with the small model."""

from collections.abc import Callable, Sequence

import pytest

from embedder.core.engine import Engine
from embedder.http.router import Router
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of, router_of


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
def make_router(make_engine: Callable[..., Engine]) -> Callable[..., Router]:
    """Return a function that makes a router; `index` is the list of texts to index."""

    def make(*, index: Sequence[str] | None = None, **options: object) -> Router:
        return router_of(make_engine(**options), index)

    return make


@pytest.fixture
def router(make_router: Callable[..., Router]) -> Router:
    return make_router()
