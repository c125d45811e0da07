"""The state that SnapStart copies, and the state that it must not copy."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest
import snapshot_restore_py

from embedder.aws_lambda.snapshot import prepare, renew, settle
from embedder.core.settings import Settings
from embedder.http.router import Service
from embedder.http.telemetry import Telemetry
from tests.embedder.calls import post
from tests.embedder.small_model import HashSession


@pytest.fixture
def service(make_service: Callable[..., Service]) -> Service:
    """Return a service that has answered a request."""
    service = make_service(cache_entries=10)
    service.telemetry = Telemetry(Settings(artifact=Path()))
    post(service, "/", {"text": "a"})
    return service


def test_the_runtime_runs_both_hooks(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooks are registered with the runtime, with the service as their argument."""
    monkeypatch.setattr(snapshot_restore_py, "_before_snapshot_registry", [])
    monkeypatch.setattr(snapshot_restore_py, "_after_restore_registry", [])
    prepare(service)
    assert snapshot_restore_py.get_before_snapshot() == [(settle, (service,), {})]
    assert snapshot_restore_py.get_after_restore() == [(renew, (service,), {})]


def test_the_snapshot_holds_a_model_that_has_run_and_no_vectors(
    service: Service, session: HashSession
) -> None:
    """Restored copies start with a warm model and an empty cache."""
    runs = len(session.shapes)
    settle(service)
    assert len(session.shapes) == runs + 1
    assert len(service.model.engine.cache) == 0


def test_a_restored_copy_is_cold_and_has_random_numbers_of_its_own(service: Service) -> None:
    """Copies of one snapshot draw different random numbers, and each reports a cold start."""
    assert service.telemetry is not None
    assert service.telemetry.cold is False
    state = random.getstate()
    renew(service)
    first = random.random()
    random.setstate(state)
    renew(service)
    assert random.random() != first
    assert service.telemetry.cold is True
