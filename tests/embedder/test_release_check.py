"""The check of a new version before it is given traffic."""

import io
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from embedder import release_check
from embedder.artifact import Golden
from embedder.function_url import request_from_event, response_to_event
from embedder.http import Request
from embedder.release_check import Answer, ReleaseRefusedError, check
from embedder.service import Service, build_service
from embedder.settings import Settings


@pytest.fixture(scope="module")
def service(minilm_artifact) -> Service:
    return build_service(Settings(artifact=minilm_artifact.folder))


@pytest.fixture(scope="module")
def serving(service):
    """Call the embedder as the check calls a version."""

    def call(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        encoded = json.dumps(body).encode() if body is not None else b""
        response = service.answer(Request(method, path, body=encoded))
        return Answer(status=response.status, body=json.loads(response.body))

    return call


@pytest.fixture(scope="module")
def manifest(minilm_artifact, serving):
    """The artifact's manifest, with a golden vector in it whatever the compiler wrote."""
    head = tuple(serving("POST", "/", {"text": "a golden text"}).body["embedding"][:5])
    golden = Golden(text="a golden text", prompt=None, embedding_head=head)
    return _with(minilm_artifact.manifest, golden=(golden,))


def _with(manifest, **changes):
    return manifest._replace(**changes)


def _of_space(space: str):
    """A version that answers its health, in another vector space."""

    def call(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        return Answer(status=200, body={"status": "ok", "vector_space": space})

    return call


def _broken(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
    return Answer(status=502, body={"error": "Runtime.ExitError"})


def test_a_version_that_serves_its_artifact_passes(serving, manifest):
    """The same model, compiled and served again, is released."""
    check(new=serving, live=serving, manifest=manifest)


def test_a_new_version_is_warmed_before_it_is_checked(serving, manifest):
    """Several environments start before the first caller comes."""
    asked = []

    def counted(method, path, body):
        asked.append((method, path))
        return serving(method, path, body)

    check(new=counted, live=serving, manifest=manifest)
    assert asked[: release_check.WARM_STARTS] == [("GET", "/health")] * release_check.WARM_STARTS
    assert ("POST", "/") in asked


def test_a_change_of_the_vectors_is_refused(serving, manifest):
    """Vectors of two spaces must never be compared, so the index would be worthless."""
    with pytest.raises(ReleaseRefusedError) as refused:
        check(new=serving, live=_of_space("other@1/int8/abc/384"), manifest=manifest)
    space = manifest.vector_space_of(dimension=384)
    assert str(refused.value) == (
        f"the vectors would change from other@1/int8/abc/384 to {space}, and vectors of two "
        "spaces must never be compared; allowed: a version of the same space, or "
        "allow_vector_space_change = true under [release] and every stored vector made anew"
    )


def test_a_change_of_the_vectors_may_be_allowed(serving, manifest):
    """The environment says that every stored vector is made anew."""
    check(
        new=serving,
        live=_of_space("other@1/int8/abc/384"),
        manifest=manifest,
        allow_vector_space_change=True,
    )


def test_a_broken_live_version_can_be_replaced(serving, manifest):
    """It cannot tell its space, so the check says how to go on, and then does."""
    with pytest.raises(ReleaseRefusedError, match="To replace a version that no longer answers"):
        check(new=serving, live=_broken, manifest=manifest)
    check(new=serving, live=_broken, manifest=manifest, allow_vector_space_change=True)


def test_a_broken_new_version_is_refused(serving, manifest):
    """A version that does not start gets no traffic."""
    with pytest.raises(ReleaseRefusedError, match="the new version answers GET /health with 502"):
        check(new=_broken, live=serving, manifest=manifest)


def test_a_version_of_another_artifact_is_refused(serving, manifest):
    """The manifest in the image and what is served are of one space."""
    other = _with(manifest, vector_space="other@1/int8/abc")
    with pytest.raises(ReleaseRefusedError, match="its image holds other@1/int8/abc/384"):
        check(new=serving, live=serving, manifest=other)


def test_a_missed_golden_vector_is_refused(serving, manifest):
    """A model that computes something else gets no traffic, whatever it calls itself."""
    (golden,) = manifest.golden
    head = (golden.embedding_head[0] + 0.05, *golden.embedding_head[1:])
    wrong = _with(manifest, golden=(golden._replace(embedding_head=head),))
    with pytest.raises(ReleaseRefusedError, match=r"missed by 0\.0500; allowed: 0\.01"):
        check(new=serving, live=serving, manifest=wrong)


def test_a_vector_of_another_length_is_refused(serving, manifest):
    """Cosine by dot product rests on length 1."""

    def long(method, path, body):
        answer = serving(method, path, body)
        if method == "GET":
            return answer
        return Answer(status=200, body={"embedding": [2 * v for v in answer.body["embedding"]]})

    with pytest.raises(ReleaseRefusedError, match=r"a vector has length 2\.0000; allowed: 1"):
        check(new=long, live=serving, manifest=_with(manifest, golden=()))


@pytest.fixture
def aws(service, minilm_artifact, monkeypatch):
    """Lambda and CodeDeploy as the check's function sees them; what CodeDeploy was told."""
    told: list[dict[str, str]] = []

    def invoke(*, FunctionName: str, Qualifier: str, Payload: bytes) -> dict[str, Any]:  # noqa: N803
        if Qualifier == "broken":
            payload: Any = {"errorType": "Runtime.ExitError"}
            return {"FunctionError": "Unhandled", "Payload": _stream(payload)}
        response = service.answer(request_from_event(json.loads(Payload)))
        return {"Payload": _stream(response_to_event(response))}

    def put_lifecycle_event_hook_execution_status(**status: str) -> None:
        told.append(status)

    clients = {
        "lambda": SimpleNamespace(invoke=invoke),
        "codedeploy": SimpleNamespace(
            put_lifecycle_event_hook_execution_status=put_lifecycle_event_hook_execution_status
        ),
    }
    session = SimpleNamespace(create_client=clients.__getitem__)
    monkeypatch.setattr(release_check, "get_session", lambda: session)
    monkeypatch.setattr(release_check, "load_artifact", lambda _: minilm_artifact)
    monkeypatch.setenv("RELEASE_FUNCTION", "embedder")
    monkeypatch.setenv("RELEASE_ALIAS", "live")
    monkeypatch.setenv("RELEASE_ALLOW_VECTOR_SPACE_CHANGE", "false")
    return told


def _stream(payload: Any) -> io.BytesIO:
    return io.BytesIO(json.dumps(payload).encode())


EVENT = {"DeploymentId": "d-1", "LifecycleEventHookExecutionId": "hook-1"}


@pytest.mark.parametrize(("version", "status"), [("12", "Succeeded"), ("broken", "Failed")])
def test_codedeploy_is_told(aws, monkeypatch, version, status):
    """The version's own answers, through Lambda, decide the release."""
    monkeypatch.setenv("RELEASE_VERSION", version)
    release_check.handler(EVENT, None)
    assert aws == [
        {
            "deploymentId": "d-1",
            "lifecycleEventHookExecutionId": "hook-1",
            "status": status,
        }
    ]


def test_a_fault_of_the_check_is_a_refusal(aws, monkeypatch):
    """CodeDeploy is told at once, and does not wait an hour for nothing."""
    monkeypatch.setenv("RELEASE_VERSION", "12")
    monkeypatch.setattr(release_check, "check", lambda **_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        release_check.handler(EVENT, None)
    assert [status["status"] for status in aws] == ["Failed"]
