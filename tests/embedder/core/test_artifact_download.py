"""The artifact's download against a server that fails as S3 fails."""

import errno
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from embedder.application import build_router
from embedder.core.artifact import load_artifact
from embedder.core.artifact_download import download
from embedder.core.errors import ArtifactDownloadError, ArtifactError, SettingsError
from embedder.core.settings import EmbedderSettings
from embedder.http.router import Router
from tests.embedder.calls import post
from tests.embedder.core.test_artifact import manifest, sealed
from tests.fixtures import s3_object_server as faults
from tests.fixtures.s3_object_server import REGION, S3Server, serving_object
from zip_builder.model import build_object

FILES = {"model.onnx": 1_234, "model.onnx.data": 50_000, "tokenizer.bin": 9_000, "empty": 0}
#: Where the files start in the object, sorted by name.
STARTS = {"model.onnx": 0, "model.onnx.data": 1_234, "tokenizer.bin": 51_234}
Fetch = Callable[[], Path]


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """Return a folder with random files and a manifest that is valid for them."""
    folder = tmp_path / "compiled"
    folder.mkdir()
    entries = {}
    for name, size in FILES.items():
        content = random.Random(name).randbytes(size)
        (folder / name).write_bytes(content)
        entries[name] = {"bytes": size, "sha256": hashlib.sha256(content).hexdigest()}
    (folder / "manifest.json").write_bytes(sealed({**manifest(), "files": entries}))
    return folder


@pytest.fixture
def server(artifact: Path, tmp_path: Path) -> Iterator[S3Server]:
    with serving_object(build_object(artifact, cache=tmp_path).read_bytes()) as state:
        yield state


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Do not wait before a retry, and record for how long it would have been."""
    delays: list[float] = []
    monkeypatch.setattr("embedder.core.artifact_download.time.sleep", delays.append)
    return delays


@pytest.fixture
def fetch(server, artifact, tmp_path, monkeypatch) -> Fetch:
    """Return a function that downloads the artifact as a start does."""
    package, temporary = tmp_path / "package", tmp_path / "tmp"
    package.mkdir()
    temporary.mkdir()
    (package / "manifest.json").write_bytes((artifact / "manifest.json").read_bytes())
    set_keys(monkeypatch, server)
    return lambda: Path(
        download(
            server.location,
            package=package,
            temporary=temporary,
            region=REGION,
            endpoint=server.url,
        )
    )


def set_keys(monkeypatch: pytest.MonkeyPatch, server: S3Server) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.keys[0])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.keys[1])
    monkeypatch.setenv("AWS_SESSION_TOKEN", str(server.token))


def check_whole(folder: Path, artifact: Path) -> None:
    load_artifact(folder)
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted([*FILES, "manifest.json"])
    for name in names:
        assert (folder / name).read_bytes() == (artifact / name).read_bytes()


def test_a_start_gets_the_artifact(fetch, server, artifact):
    """One signed request for each file that is not empty."""
    check_whole(fetch(), artifact)
    assert server.requests == list(STARTS.values())


RETRIED = {
    "cut": (faults.cut, "the connection failed"),
    "reset": (faults.reset, "the connection failed"),
    "altered": (faults.altered, r"the SHA-256 of [\w.]+ is not the manifest's"),
    "SlowDown": (faults.error(503, "SlowDown"), "503 SlowDown"),
    "RequestTimeout": (faults.error(400, "RequestTimeout"), "400 RequestTimeout"),
    "ExpiredToken": (faults.error(400, "ExpiredToken"), "400 ExpiredToken"),
    "AccessDenied": (faults.error(403, "AccessDenied"), "403 AccessDenied: the role may not read"),
}


def test_a_file_that_failed_is_read_again(fetch, server, artifact, delays):
    """Each fault that may pass is retried, for that file alone, with growing delays."""
    for number, (fault, _) in enumerate(RETRIED.values()):
        server.fail(list(STARTS.values())[number % 3], fault)
    check_whole(fetch(), artifact)
    assert [server.requests.count(start) for start in STARTS.values()] == [4, 3, 3]
    assert delays == [0.5, 1.0, 2.0, 0.5, 1.0, 0.5, 1.0]


@pytest.mark.parametrize(("fault", "reason"), RETRIED.values(), ids=RETRIED)
def test_a_fault_that_stays_ends_the_start(
    *, fetch, server, artifact, tmp_path, delays, fault, reason
):
    """The error says what happened, no file is left, and the next start succeeds."""
    server.always = fault
    with pytest.raises(ArtifactDownloadError, match=reason) as refused:
        fetch()
    assert str(refused.value).startswith(
        f"The artifact cannot be downloaded from {server.location}:"
    )
    assert "secret" not in str(refused.value)
    assert delays == [0.5, 1.0, 2.0, 4.0, 8.0]
    assert list((tmp_path / "tmp").iterdir()) == []
    server.always = None
    check_whole(fetch(), artifact)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.error(404, "NoSuchKey"), "the object is missing; deploy again to upload it"),
        (faults.error(416, "InvalidRange"), "the object is smaller than the manifest says"),
        (faults.error(400, "AuthorizationHeaderMalformed"), "may be in another region"),
        (faults.error(301, "PermanentRedirect"), "the bucket is in another region"),
    ],
)
def test_what_no_retry_helps_is_not_retried(*, fetch, server, delays, fault, reason):
    """The first response ends the start."""
    server.always = fault
    with pytest.raises(ArtifactDownloadError, match=reason):
        fetch()
    assert delays == []


def test_a_start_that_takes_too_long_ends(fetch, server, monkeypatch, delays):
    """Lambda would end it later, without a reason; no attempt begins that could not end."""
    monkeypatch.setattr("embedder.core.artifact_download._SECONDS", -1.0)
    with pytest.raises(ArtifactDownloadError, match="it did not arrive within"):
        fetch()
    assert delays == []
    monkeypatch.setattr("embedder.core.artifact_download._SECONDS", 3.0)
    server.always = faults.error(503, "SlowDown")
    with pytest.raises(ArtifactDownloadError, match="S3 responded with 503"):
        fetch()
    assert delays == [0.5, 1.0, 2.0]


def test_a_start_after_one_that_was_killed_gets_the_artifact(fetch, server, artifact, tmp_path):
    """Half-written files of another start are not taken for whole ones."""
    unfinished = tmp_path / "tmp" / "embedding-artifact.unfinished"
    unfinished.mkdir()
    for name, size in FILES.items():
        (unfinished / name).write_bytes(bytes(size))
    check_whole(fetch(), artifact)
    assert len(server.requests) == 3


def test_a_second_start_uses_what_the_first_one_downloaded(fetch, server, artifact):
    """A finished folder is not downloaded again."""
    folder = fetch()
    assert folder.stat().st_mode & 0o077 == 0
    server.requests.clear()
    assert fetch() == folder
    assert server.requests == []
    check_whole(folder, artifact)


@pytest.mark.parametrize("name", ["model.onnx.data", "manifest.json"])
def test_a_finished_folder_that_was_changed_is_downloaded_again(fetch, artifact, name):
    """A finished folder is checked before it is used."""
    path = fetch() / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    check_whole(fetch(), artifact)


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "tmp is full; found: an artifact of 0 MB; allowed: up to 512 MB"),
        (errno.EIO, r"tmp cannot be written \(.*Input/output error\)"),
    ],
)
def test_a_disk_that_fails_is_named(*, fetch, artifact, tmp_path, monkeypatch, number, reason):
    """It ends the start, which is not retried, and leaves nothing."""

    def broken(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patched:
        patched.setattr("embedder.core.artifact_download._Object._fetch_file", broken)
        with pytest.raises(ArtifactDownloadError, match=reason):
            fetch()
    assert list((tmp_path / "tmp").iterdir()) == []
    check_whole(fetch(), artifact)


def test_a_server_that_refuses_or_cannot_be_reached_is_named(fetch, server, delays, monkeypatch):
    """The server compares signatures; without an endpoint for S3, a VPC has no server."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(ArtifactDownloadError, match="403 SignatureDoesNotMatch"):
        fetch()
    assert server.requests == []
    server.url = "http://127.0.0.1:9"
    with pytest.raises(ArtifactDownloadError, match=r"connection failed \(EndpointConnectionError"):
        fetch()


@pytest.mark.parametrize(
    "location", ["bucket/key", "s3://", "s3://bucket", "s3:///key", "https://b/k"]
)
def test_a_location_is_a_bucket_and_a_key(location, tmp_path):
    """Anything else is a mistake in the settings."""
    with pytest.raises(SettingsError, match=r"must be s3://BUCKET/KEY; found"):
        download(location, package=tmp_path, temporary=tmp_path, region=REGION)


def test_a_package_without_a_manifest_is_refused(fetch, tmp_path):
    """Nothing is downloaded that cannot be checked."""
    (tmp_path / "package" / "manifest.json").unlink()
    with pytest.raises(ArtifactError, match=r"manifest\.json cannot be read"):
        fetch()


@pytest.fixture(scope="module")
def minilm_object(minilm_artifact, tmp_path_factory) -> Iterator[S3Server]:
    path = build_object(Path(minilm_artifact.folder), cache=tmp_path_factory.mktemp("s3"))
    with serving_object(path.read_bytes()) as server:
        yield server


@pytest.fixture
def make_router(minilm_object, minilm_artifact, tmp_path, monkeypatch) -> Callable[[], Router]:
    """Return a function that starts the endpoint from the environment of such a function."""
    package, temporary = tmp_path / "artifact", tmp_path / "tmp"
    package.mkdir()
    temporary.mkdir()
    compiled = Path(minilm_artifact.folder)
    (package / "manifest.json").write_bytes((compiled / "manifest.json").read_bytes())
    set_keys(monkeypatch, minilm_object)
    environ = {
        "EMBEDDING_ARTIFACT": str(package),
        "EMBEDDING_ARTIFACT_LOCATION": minilm_object.location,
        "AWS_REGION": REGION,
        "AWS_ENDPOINT_URL_S3": minilm_object.url,
        "TMPDIR": str(temporary),
    }
    return lambda: build_router(EmbedderSettings.from_env(environ))


def test_the_vectors_are_the_same_to_the_last_bit(make_router, minilm_artifact):
    """Where the files come from changes no vector, nor the vector space."""
    body = {"texts": ["first things first", "second"]}
    from_s3 = post(make_router(), "/", body)
    from_package = post(build_router(EmbedderSettings(artifact=minilm_artifact.folder)), "/", body)
    assert from_s3.status == 200
    assert json.loads(from_s3.body) == json.loads(from_package.body)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux lists what is mapped")
def test_the_model_is_read_from_the_temporary_folder(make_router, tmp_path):
    """ONNX Runtime opens the downloaded files by path and maps them."""
    router = make_router()
    assert str(tmp_path / "tmp" / "embedding-artifact") in Path("/proc/self/maps").read_text()
    assert post(router, "/", {"text": "a"}).status == 200


def test_a_location_needs_a_region(tmp_path):
    """Lambda always sets it."""
    with pytest.raises(SettingsError, match="needs AWS_REGION"):
        build_router(EmbedderSettings(artifact=tmp_path, artifact_location="s3://a/b"))
