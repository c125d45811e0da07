"""The endpoint with an artifact from S3 answers as with one from its package."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedder.artifact import Artifact
from embedder.errors import SettingsError
from embedder.service import Service, build_service
from embedder.settings import Settings
from model_compiler.artifact.packed import write_object, write_parts
from tests.embedder.calls import post
from tests.fixtures.s3_object_server import REGION, S3Server, serving_object


@pytest.fixture(scope="module")
def minilm_object(
    minilm_artifact: Artifact, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[S3Server]:
    path = tmp_path_factory.mktemp("s3") / "object"
    write_object(Path(minilm_artifact.folder), path)
    with serving_object(path.read_bytes()) as server:
        yield server


@pytest.fixture
def make_service(
    minilm_object: S3Server,
    minilm_artifact: Artifact,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[], Service]:
    """Return a function that starts the endpoint from the environment of such a function."""
    package, temporary = tmp_path / "artifact", tmp_path / "tmp"
    package.mkdir()
    temporary.mkdir()
    compiled = Path(minilm_artifact.folder)
    (package / "manifest.json").write_bytes((compiled / "manifest.json").read_bytes())
    write_parts(compiled, package / "parts.json")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", minilm_object.keys[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", minilm_object.keys[1])
    monkeypatch.setenv("AWS_SESSION_TOKEN", minilm_object.token)
    environ = {
        "EMBEDDING_ARTIFACT": str(package),
        "EMBEDDING_ARTIFACT_LOCATION": minilm_object.location,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": minilm_object.url,
        "TMPDIR": str(temporary),
    }
    return lambda: build_service(Settings.from_env(environ))


def test_the_vectors_are_the_same_to_the_last_bit(
    make_service: Callable[[], Service], minilm_artifact: Artifact
) -> None:
    """Where the files come from changes no vector, nor the vector space."""
    body = {"texts": ["first things first", "second"]}
    from_s3 = post(make_service(), "/", body)
    from_package = post(build_service(Settings(artifact=minilm_artifact.folder)), "/", body)
    assert from_s3.status == 200
    assert json.loads(from_s3.body) == json.loads(from_package.body)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what is mapped")
def test_the_model_is_read_from_the_temporary_folder(
    make_service: Callable[[], Service], tmp_path: Path
) -> None:
    """ONNX Runtime opens the downloaded files by path and maps them."""
    service = make_service()
    mapped = Path("/proc/self/maps").read_text()
    assert str(tmp_path / "tmp" / "embedding-artifact") in mapped
    assert post(service, "/", {"text": "a"}).status == 200


def test_a_location_needs_a_region(tmp_path: Path) -> None:
    """Lambda always sets it."""
    with pytest.raises(SettingsError, match="needs AWS_REGION"):
        build_service(Settings(artifact=tmp_path, artifact_location="s3://a/b"))
