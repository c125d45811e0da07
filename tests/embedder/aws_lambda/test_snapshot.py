"""The state that SnapStart copies, and the state that it must not copy."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import snapshot_restore_py

from embedder.aws_lambda.snapshot import after_restore, before_snapshot, prepare
from embedder.core.settings import EmbedderSettings
from embedder.http.router import Router
from embedder.http.telemetry import Telemetry
from tests.embedder.calls import post


@pytest.fixture
def router(make_router: Callable[..., Router]) -> Router:
    """Return a router that has answered a request."""
    router = make_router(cache_entries=10)
    router.telemetry = Telemetry(EmbedderSettings(artifact=Path()))
    post(router, "/", {"text": "a"})
    return router


def test_the_runtime_runs_both_hooks(router, monkeypatch):
    """The hooks are registered with the runtime, with the router as their argument."""
    monkeypatch.setattr(snapshot_restore_py, "_before_snapshot_registry", [])
    monkeypatch.setattr(snapshot_restore_py, "_after_restore_registry", [])
    prepare(router)
    assert snapshot_restore_py.get_before_snapshot() == [(before_snapshot, (router,), {})]
    assert snapshot_restore_py.get_after_restore() == [(after_restore, (router,), {})]


def test_a_snapshot_has_no_vectors_of_texts_and_no_credentials(make_router, monkeypatch):
    """All copies would have those of the caller before it; the model itself is warm."""
    router = make_router(cache_entries=10, index=["a"])
    forgotten: list[bool] = []
    monkeypatch.setattr(router.model.search_index, "forget", lambda: forgotten.append(True))
    post(router, "/", {"text": "a"})
    assert len(router.model.loaded.cache) == 1
    before_snapshot(router)
    assert len(router.model.loaded.cache) == 0
    assert forgotten == [True]


def test_a_restored_copy_is_cold_and_has_random_numbers_of_its_own(router):
    """Copies of one snapshot draw different random numbers, and each reports a cold start."""
    assert router.telemetry is not None
    assert router.telemetry.cold is False
    state = random.getstate()
    after_restore(router)
    number = random.random()
    random.setstate(state)
    after_restore(router)
    assert random.random() != number
    assert router.telemetry.cold is True
