"""The artifact's download against a server that fails in each way in which S3 fails."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from embedder.artifact import load_artifact
from embedder.artifact_download import s3_object
from embedder.aws.credentials import CredentialsProvider
from embedder.errors import ArtifactDownloadError, ArtifactError, SettingsError
from model_compiler.artifact.packed import write_object, write_parts
from tests.embedder.artifact_download.conftest import FILES, PART, write_artifact
from tests.embedder.aws.http_server import serving
from tests.fixtures import s3_object_server as faults
from tests.fixtures.s3_object_server import Fault, S3Server

Fetch = Callable[..., Path]


def check_whole(folder: Path, artifact: Path) -> None:
    """Check that a folder has the artifact's files, and the embedder loads it."""
    load_artifact(folder)
    names = sorted(path.name for path in folder.iterdir())
    assert names == sorted([*FILES, "manifest.json"])
    for name in names:
        assert (folder / name).read_bytes() == (artifact / name).read_bytes()


def check_nothing_is_left(folder: Path) -> None:
    assert list(folder.iterdir()) == []


def test_a_start_gets_the_artifact(fetch: Fetch, server: S3Server, artifact: Path) -> None:
    """The parts become the artifact's files, over four connections, with signed requests."""
    check_whole(fetch(), artifact)
    assert server.forged == 0
    assert sorted(start for start, _ in server.requests) == list(range(0, 60_234, PART))
    assert server.connections == 4


def test_all_parts_are_of_one_version(fetch: Fetch, server: S3Server) -> None:
    """The first part is of any version; the others must have its ETag."""
    fetch()
    assert dict(server.requests) == {0: None} | dict.fromkeys(
        range(PART, 60_234, PART), server.etag
    )


RETRIED = {
    "short": faults.short,
    "cut": faults.cut,
    "reset": faults.reset,
    "altered": faults.altered,
    "wrong range": faults.wrong_range,
    "SlowDown": faults.error(503, "SlowDown"),
    "InternalError": faults.error(500, "InternalError"),
    "RequestTimeout": faults.error(400, "RequestTimeout"),
    "AccessDenied": faults.error(403, "AccessDenied"),
    "ExpiredToken": faults.error(400, "ExpiredToken"),
}


@pytest.mark.parametrize("start", [0, 3 * PART, 6 * PART])
@pytest.mark.parametrize("fault", RETRIED.values(), ids=RETRIED)
def test_a_part_that_failed_is_read_again(
    *,
    fetch: Fetch,
    server: S3Server,
    artifact: Path,
    delays: list[float],
    fault: Fault,
    start: int,
) -> None:
    """What may help is retried for that part alone: the first one, one in the middle, the last."""
    server.fail(start, fault, fault)
    check_whole(fetch(), artifact)
    assert [place for place, _ in server.requests].count(start) == 3
    assert len(server.requests) == 9
    assert delays == [0.2, 0.4]


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.short, r"S3 announced 9990 of a part's 10000 bytes"),
        (faults.cut, r"5000 of a part's 10000 bytes arrived"),
        (faults.reset, r"the connection failed \(ConnectionResetError\)"),
        (
            faults.altered,
            r"the bytes from \d+ on were altered: their CRC-32 is [0-9a-f]{8}, and the package",
        ),
        (faults.error(503, "SlowDown"), r"S3 responded with 503 SlowDown \(request TESTREQUEST\)"),
        (
            faults.error(403, "AccessDenied"),
            r"403 AccessDenied \(request TESTREQUEST\): the role may not read the object or use",
        ),
        (faults.error(400, "ExpiredToken"), "the credentials are expired"),
    ],
)
def test_a_fault_that_stays_ends_the_start(
    *,
    fetch: Fetch,
    server: S3Server,
    tmp_path: Path,
    delays: list[float],
    fault: Fault,
    reason: str,
) -> None:
    """After eight attempts in some 15 seconds the error says what happened, and no file is left."""
    server.always = fault
    with pytest.raises(ArtifactDownloadError, match=reason) as found:
        fetch()
    assert str(found.value).startswith(f"The artifact cannot be downloaded from {server.location}:")
    assert "secret" not in str(found.value)
    assert sorted(set(delays)) == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 8.0]
    check_nothing_is_left(tmp_path / "tmp")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (faults.error(404, "NoSuchKey"), "404 NoSuchKey .*: the object is missing; deploy again"),
        (faults.error(404, "NoSuchBucket"), "404 NoSuchBucket"),
        (
            faults.error(301, "PermanentRedirect", x_amz_bucket_region="us-west-2"),
            "the bucket is in us-west-2, and the function reads in eu-central-1",
        ),
        (
            faults.error(307, "TemporaryRedirect", Location="https://elsewhere.example/"),
            "the bucket is in another region, and the function reads in eu-central-1",
        ),
        (
            faults.error(400, "AuthorizationHeaderMalformed", x_amz_bucket_region="ap-southeast-2"),
            "the bucket is in ap-southeast-2",
        ),
        (faults.error(400, "InvalidRequest"), "S3 responded with 400 InvalidRequest"),
        (
            lambda exchange: exchange.respond(200, b"", {"Content-Length": "0"}),
            "S3 responded with 200 .*: the whole object instead of a part",
        ),
        (
            lambda exchange: exchange.respond(
                206, b"", exchange.headers(Content_Range="bytes 0-9999/60233")
            ),
            "the object has 60233 bytes, and the manifest says 60234",
        ),
        (faults.error(416, "InvalidRange"), "the object has less than 1 bytes"),
    ],
)
def test_what_no_retry_helps_is_not_retried(
    *,
    fetch: Fetch,
    server: S3Server,
    tmp_path: Path,
    delays: list[float],
    fault: Fault,
    reason: str,
) -> None:
    """A missing object, one of another size and one in another region end the start at once."""
    server.always = fault
    with pytest.raises(ArtifactDownloadError, match=reason):
        fetch()
    assert len(server.requests) == 1
    check_nothing_is_left(tmp_path / "tmp")


@pytest.mark.parametrize("fault", [faults.silent, faults.trickling])
def test_a_slow_part_is_read_again(
    *,
    fetch: Fetch,
    server: S3Server,
    artifact: Path,
    delays: list[float],
    monkeypatch: pytest.MonkeyPatch,
    fault: Fault,
) -> None:
    """A connection without bytes, and one with a byte now and then, are given up."""
    monkeypatch.setattr(s3_object, "_WAIT_SECONDS", 0.3)
    monkeypatch.setattr(s3_object, "_PART_SECONDS", 0.3)
    server.fail(2 * PART, fault)
    check_whole(fetch(), artifact)
    assert [place for place, _ in server.requests].count(2 * PART) >= 2


@pytest.mark.parametrize("fault", [faults.replaced, faults.of_another_version])
def test_an_object_that_was_replaced_is_read_from_its_start(
    fetch: Fetch, server: S3Server, artifact: Path, fault: Fault
) -> None:
    """No file has parts of two versions: the second transfer reads every part of the new one."""
    server.fail(4 * PART, fault)
    check_whole(fetch(), artifact)
    again = [place for place, match in server.requests if match in {None, server.etag}]
    assert again.count(0) == 2


def test_an_object_that_is_replaced_all_the_time_ends_the_start(
    fetch: Fetch, server: S3Server, tmp_path: Path
) -> None:
    """The transfer begins again only once."""
    server.fail(PART, faults.replaced, faults.replaced)
    with pytest.raises(ArtifactDownloadError, match="the object was replaced while it was read"):
        fetch()
    check_nothing_is_left(tmp_path / "tmp")


def test_weights_that_are_not_the_manifests_are_refused(
    fetch: Fetch, server: S3Server, package: Path, tmp_path: Path
) -> None:
    """SHA-256 decides: right checksums of wrong parts do not help."""
    other = write_artifact(tmp_path / "other", seed=1)
    write_object(other, tmp_path / "object")
    server.content = (tmp_path / "object").read_bytes()
    write_parts(other, package / "parts.json", part_bytes=PART)
    with pytest.raises(ArtifactDownloadError, match=r"the SHA-256 of model\.onnx is not the"):
        fetch()
    check_nothing_is_left(tmp_path / "tmp")


@pytest.mark.parametrize("others", [slice(None), slice(30_000, None), slice(20_000, 20_001)])
def test_an_object_of_another_build_is_refused(
    fetch: Fetch, server: S3Server, tmp_path: Path, delays: list[float], others: slice
) -> None:
    """Two builds of the same inputs have the same key: other bytes, all or some, never load."""
    write_object(write_artifact(tmp_path / "other", seed=1), tmp_path / "object")
    mixed, other = bytearray(server.content), (tmp_path / "object").read_bytes()
    assert len(mixed) == len(other)
    mixed[others] = other[others]
    assert bytes(mixed) != server.content
    server.content = bytes(mixed)
    with pytest.raises(ArtifactDownloadError, match=r"were altered: their CRC-32 is"):
        fetch()
    check_nothing_is_left(tmp_path / "tmp")


def test_a_start_after_one_that_was_killed_gets_the_artifact(
    fetch: Fetch, server: S3Server, artifact: Path, tmp_path: Path
) -> None:
    """Half-written files of another start are not taken for whole ones."""
    unfinished = tmp_path / "tmp" / "embedding-artifact.unfinished"
    unfinished.mkdir()
    for name, size in FILES.items():
        (unfinished / name).write_bytes(bytes(size))
    check_whole(fetch(), artifact)
    assert len(server.requests) == 7


def test_a_start_after_one_that_failed_gets_the_artifact(
    fetch: Fetch, server: S3Server, artifact: Path, delays: list[float]
) -> None:
    """An environment in which a start failed is as good as a new one."""
    server.fail(5 * PART, faults.error(404, "NoSuchKey"))
    with pytest.raises(ArtifactDownloadError):
        fetch()
    check_whole(fetch(), artifact)


def test_a_second_start_uses_what_the_first_one_downloaded(
    fetch: Fetch, server: S3Server, artifact: Path
) -> None:
    """A finished folder is not downloaded again."""
    first = fetch()
    server.requests.clear()
    assert fetch() == first
    assert server.requests == []
    check_whole(first, artifact)


@pytest.mark.parametrize("name", ["model.onnx.data", "manifest.json"])
def test_a_finished_folder_that_was_changed_is_downloaded_again(
    fetch: Fetch, server: S3Server, artifact: Path, name: str
) -> None:
    """A finished folder is checked before it is used."""
    path = fetch() / name
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    server.requests.clear()
    check_whole(fetch(), artifact)
    assert len(server.requests) == 7


def test_a_full_disk_is_named(
    fetch: Fetch, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found before anything is read, and the error says what to set."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(
        ArtifactDownloadError,
        match=r"tmp is full, and the artifact needs 0 MB there; raise function\.ephemeral_storage",
    ):
        fetch()
    assert server.requests == []
    check_nothing_is_left(tmp_path / "tmp")


def test_a_disk_that_fails_ends_the_start(
    fetch: Fetch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed write is not retried as a failed read is."""

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "pwrite", broken)
    with pytest.raises(ArtifactDownloadError, match=r"cannot be written \(.*Input/output error\)"):
        fetch()
    check_nothing_is_left(tmp_path / "tmp")


def test_expired_credentials_are_asked_for_again(
    fetch: Fetch, server: S3Server, artifact: Path, delays: list[float]
) -> None:
    """Under SnapStart they come from the container endpoint, which has new ones."""
    answer = (
        b'{"AccessKeyId": "%s", "SecretAccessKey": "%s", "Token": "%s", '
        b'"Expiration": "2999-01-01T00:00:00Z"}'
        % tuple(text.encode() for text in (*server.keys, server.token))
    )
    with serving() as endpoint:
        endpoint.answer = lambda: (200, answer)
        environ = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{endpoint.url}/credentials",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "the token",
        }
        server.fail(0, faults.error(400, "ExpiredToken"))
        check_whole(fetch(credentials=CredentialsProvider(environ)), artifact)
    assert len(endpoint.requests) >= 2
    assert endpoint.requests[0][2]["authorization"] == "the token"


def test_wrong_keys_are_refused(fetch: Fetch, server: S3Server, delays: list[float]) -> None:
    """The server compares signatures, so the other tests prove that they are right."""
    environ = {"AWS_ACCESS_KEY_ID": server.keys[0], "AWS_SECRET_ACCESS_KEY": "another"}
    with pytest.raises(ArtifactDownloadError, match="403 SignatureDoesNotMatch"):
        fetch(credentials=CredentialsProvider(environ))
    assert server.requests == []


def test_a_start_without_credentials_says_so(fetch: Fetch, delays: list[float]) -> None:
    """Neither keys nor an endpoint of them are in the environment."""
    with pytest.raises(ArtifactDownloadError, match="There are no AWS credentials in the envir"):
        fetch(credentials=CredentialsProvider({}))


def test_a_server_that_cannot_be_reached_is_named(
    fetch: Fetch, server: S3Server, delays: list[float]
) -> None:
    """As in a VPC without an endpoint for S3."""
    server.url = "http://127.0.0.1:9"
    with pytest.raises(
        ArtifactDownloadError, match=r"the connection failed \(ConnectionRefusedError\)"
    ):
        fetch()


@pytest.mark.parametrize(
    "location", ["bucket/key", "s3://", "s3://bucket", "s3:///key", "https://b/k"]
)
def test_a_location_is_a_bucket_and_a_key(location: str) -> None:
    """Anything else is a mistake in the settings."""
    with pytest.raises(SettingsError, match=r"must be s3://BUCKET/KEY; found"):
        s3_object.parse_location(location)


def test_a_package_without_checksums_is_refused(fetch: Fetch, package: Path) -> None:
    """The parts' checksums travel in the package, as the manifest does."""
    (package / "parts.json").unlink()
    with pytest.raises(ArtifactError, match=r"parts\.json cannot be read"):
        fetch()


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '{"format_version": 1}',
        '{"format_version": 2, "part_bytes": 10000, "crc32": [0,0,0,0,0,0,0]}',
        '{"format_version": 1, "part_bytes": 10000, "crc32": [0]}',
        '{"format_version": 1, "part_bytes": 0, "crc32": []}',
    ],
)
def test_checksums_of_another_object_are_refused(fetch: Fetch, package: Path, text: str) -> None:
    """They must be of as many parts as the manifest's files have."""
    (package / "parts.json").write_text(text)
    with pytest.raises(ArtifactError, match="Build the package again"):
        fetch()
