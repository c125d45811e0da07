"""Files in a folder are listed, read by ranges, and created once."""

import errno
import os
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ConnectionClosedError
from moto.server import ThreadedMotoServer

from jobs.errors import BatchError, ChangedInputError
from jobs.storage import S3Folder, _connect, open_folder
from tests.jobs.conftest import ODD_KEYS


def test_a_file_is_read_by_ranges(tmp_path):
    """A file reads and seeks as one of Python's own does."""
    data = bytes(range(200))
    (tmp_path / "a").write_bytes(data)
    folder = open_folder(str(tmp_path))
    (file,) = folder.files()
    opened = folder.open(file)
    assert opened.read(3) == data[:3]
    assert opened.seek(-5, 2) == 195
    assert opened.read() == data[-5:]
    assert opened.read() == b""
    assert opened.seek(10) == opened.tell() == 10
    assert opened.read(2) == data[10:12]
    assert folder.read("a", start=150) == data[150:]


def test_the_folders_of_a_folder_are_listed_alone(tmp_path, s3):
    """Not the files, and not the folders within folders."""
    for name in ("b/c/file", "a/file", "file"):
        s3.objects[f"bucket/top/{name}"] = b""
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    assert open_folder(str(tmp_path)).folders() == ["a", "b"]
    assert open_folder("s3://bucket/top/").folders() == ["a", "b"]


def test_s3_has_tls_unless_the_environment_names_its_endpoint(s3, monkeypatch):
    """Its variables are those of AWS."""
    assert S3Folder("s3://bucket/a")._client.meta.endpoint_url == s3.url
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    endpoint = S3Folder("s3://bucket/a")._client.meta.endpoint_url
    assert endpoint == "https://s3.eu-central-1.amazonaws.com"


@pytest.fixture(scope="module")
def moto() -> Iterator[str]:
    """Serve S3 as other authors than those of the kit's double know it."""
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    yield "http://{}:{}".format(*server.get_host_and_port())
    server.stop()


@pytest.mark.parametrize("url", ["s3://whole", "s3://part/docs/"])
@pytest.mark.parametrize("server", ["moto", "double"])
def test_a_folder_of_s3_has_every_key_that_s3_allows(s3, moto, monkeypatch, server, url):
    """Each is created once, listed, found, read, and replaced under S3's conditions."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", {"moto": moto, "double": s3.url}[server])
    folder = S3Folder(url)
    # The double takes it for an object.
    folder._client.create_bucket(
        Bucket=folder._bucket, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    # The last one has content, so that it is no folder of S3's console.
    keys = [*ODD_KEYS, "..", "full/"]
    for key in keys:
        assert folder.create(key, key.encode())
        assert not folder.create(key, b"again")
    for marker in ("empty/", "empty/inner/"):
        folder.write(marker, b"")
        assert (folder.version(marker), folder.read_object(marker)) == (None, None)
    files = list(folder.files())
    assert [file.key for file in files] == sorted(keys)
    for file in files:
        assert folder.find(file.key) == file
        assert folder.version(file.key)[1] == file.size == len(file.key.encode())
        assert folder.read(file.key, stop=1, etag=file.etag) == file.key.encode()[:1]
        etag = folder.replace(file.key, b"new", file.etag)
        assert folder.replace(file.key, b"newer", file.etag) is None
        assert folder.read_object(file.key)[:2] == (b"new", etag)
    assert folder.replace("gone", b"", etag) is None


def test_a_listing_has_more_keys_than_one_answer_of_s3(s3):
    """S3 lists 1,000 keys at a time, here with one that XML cannot have at the end of a page."""
    keys = sorted([*(f"{number:04}" for number in range(2500)), "0998\x01\n/"])
    s3.objects |= {f"bucket/{key}": b"x" for key in keys}
    assert [file.key for file in S3Folder("s3://bucket").files()] == keys


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        ("plain  text", "plain  text"),
        ("=?UTF-8?B?TcO8bGxlcg==?=", "M\u00fcller"),
        ("=?UTF-8?Q?caf=C3=A9_?= =?UTF-8?B?8J+YgA==?=", "caf\u00e9 \U0001f600"),
        *(
            (value, value)
            for value in ("a=?b", "=?x?B?TQ==?=", "=?UTF-8?B?/w==?=", "=?UTF-8?B?a?=")
        ),
    ],
)
def test_user_metadata_is_any_text(s3, sent, text):
    """S3 sends what is not ASCII as RFC 2047 encodes it; anything else stays as it is."""
    s3.objects["bucket/a"] = b"x"
    s3.attributes["bucket/a"] = {"x-amz-meta-author": sent}
    assert S3Folder("s3://bucket").read_object("a").attributes["author"] == text


def test_a_write_of_equal_content_and_other_metadata_is_another_version(s3):
    """Also in the second of the write before, which the time of S3 does not tell apart."""
    s3.objects["bucket/a"] = b"x"
    folder, versions = S3Folder("s3://bucket"), set()
    for attributes in ({}, {"x-amz-meta-year": "1"}, {"content-type": "text/plain; charset=x"}):
        s3.attributes["bucket/a"] = attributes
        versions.add(folder.version("a"))
    assert len(versions) == 3


@pytest.mark.parametrize("kind", ["disk", "s3"])
def test_a_file_is_created_once_and_read_as_planned(tmp_path, s3, kind):
    """S3 itself checks both: `If-None-Match: *` on a creation, `If-Match` on a read."""
    url = "s3://bucket/prefix" if kind == "s3" else str(tmp_path / "new")
    folder = open_folder(url, create=True)
    assert folder.create("a/b.jsonl", b"first")
    assert not folder.create("a/b.jsonl", b"second")
    (file,) = folder.files()
    assert (file.key, file.size) == ("a/b.jsonl", 5)
    assert folder.find("a/b.jsonl") == file
    assert folder.find("a") is None
    assert folder.read(file.key, start=1, stop=3, etag=file.etag) == b"ir"
    folder.write(file.key, b"another one")
    with pytest.raises(
        ChangedInputError, match=rf"{url}/a/b\.jsonl changed after the job was plan"
    ):
        folder.read(file.key, start=1, stop=3, etag=file.etag)


@pytest.mark.parametrize("url", ["gs://bucket/x", "https://example.org/"])
def test_another_scheme_is_refused(url):
    """Folders are paths or in S3."""
    with pytest.raises(BatchError, match=f"A folder is a path or s3://BUCKET/PREFIX; found {url}"):
        open_folder(url)


def test_a_missing_folder_is_an_error(tmp_path):
    """A folder that does not exist is not taken for an empty one, and a file is missing by name."""
    with pytest.raises(BatchError, match="/no is not a folder"):
        open_folder(str(tmp_path / "no"))
    folder = open_folder(str(tmp_path))
    assert folder.find("x") is None
    with pytest.raises(BatchError, match="/x cannot be read: "):
        folder.read("x")


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    """A file in the place of a folder is named in the error."""
    (tmp_path / "a").touch()
    folder = open_folder(str(tmp_path))
    for write in (folder.create, folder.write):
        with pytest.raises(BatchError, match="/a/b cannot be written: "):
            write("a/b", b"x")


def test_links_to_one_folder_have_its_files_each(tmp_path):
    """A link has what the folder has, with all folders below; a link to nothing has no file."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/file").write_bytes(b"")
    for name in ("c", "0"):
        (tmp_path / name).symlink_to("a")
    (tmp_path / "nothing").symlink_to("d")
    keys = [file.key for file in open_folder(str(tmp_path)).files()]
    assert keys == ["0/b/file", "a/b/file", "c/b/file"]


def test_a_folder_without_an_end_is_an_error(tmp_path):
    """Its files cannot be counted; the error names the link."""
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/up").symlink_to(tmp_path / "a")
    with pytest.raises(BatchError, match=r"cannot be listed: .*above it: .*a/b/up"):
        list(open_folder(str(tmp_path)).files())


def test_a_name_that_is_no_text_is_an_error(tmp_path):
    """The error has its folder and its bytes."""
    (tmp_path / os.fsdecode(b"stra\xdfe.md")).touch()
    with pytest.raises(BatchError, match=r"cannot be listed: .*not UTF-8: '.*/stra.udcdfe\.md'"):
        list(open_folder(str(tmp_path)).files())


def test_a_folder_that_cannot_be_read_is_an_error(tmp_path, monkeypatch):
    """Its files would be missing without a word."""
    (tmp_path / "locked").mkdir()
    scandir = os.scandir

    def denied(path: str) -> Any:
        if path.endswith("locked"):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(BatchError, match=r"cannot be listed: .*denied: .*locked"):
        list(open_folder(str(tmp_path)).files())


@pytest.mark.parametrize(
    ("variable", "value"), [("AWS_PROFILE", "nobody"), ("AWS_ENDPOINT_URL", "minio")]
)
def test_an_unusable_setting_of_aws_is_an_error(monkeypatch, variable, value):
    """It has the name of the folder and of what was found."""
    _connect.cache_clear()
    monkeypatch.setenv(variable, value)
    with pytest.raises(BatchError, match=f"s3://bucket/a cannot be opened: .*{value}"):
        open_folder("s3://bucket/a/")


def test_s3_is_called_with_what_lambda_sets(s3):
    """Region, role credentials and session token come from the environment."""
    assert open_folder("s3://bucket/prefix/").create("a", b"data")
    ((method, path, headers),) = s3.requests
    assert (method, path) == ("PUT", "bucket/prefix/a")
    assert headers["x-amz-security-token"] == "token"
    assert "Credential=ASIAEXAMPLE/" in headers["authorization"]
    assert "/eu-central-1/s3/aws4_request" in headers["authorization"]


@pytest.mark.parametrize(("conflicts", "missing"), [(1, 404), (2, 403)])
def test_a_creation_is_tried_again_while_another_is_running(s3, conflicts, missing):
    """S3 answers 409 then; a file that does not exist afterwards is written."""
    s3.conflicts, s3.missing = conflicts, missing
    assert open_folder("s3://bucket/prefix").create("a", b"data")
    assert s3.objects == {"bucket/prefix/a": b"data"}


@pytest.mark.parametrize("earlier", [b"", b"earlier"])
def test_a_write_whose_answer_is_lost_is_no_conflict(s3, earlier):
    """It is tried again, and finds what it has written; what others have written is a conflict."""
    folder = S3Folder("s3://bucket/a")
    etag = folder.replace("key", earlier, "") if earlier else ""
    client, requests = folder._client, []

    def lose(request: Any, **_: Any) -> None:
        requests.append(request)
        if len(requests) == 1:
            client._endpoint.http_session.send(request)
            raise ConnectionClosedError(endpoint_url=request.url)

    client.meta.events.register("before-send.s3.PutObject", lose)
    try:
        written = folder.replace("key", b"data", etag)
        assert len(requests) == 2
        assert written == folder.find("key").etag
        assert folder.replace("key", b"other", etag) is None
    finally:
        client.meta.events.unregister("before-send.s3.PutObject", lose)


def test_a_creation_that_never_succeeds_is_an_error(s3, monkeypatch):
    """The number of attempts is limited."""
    monkeypatch.setattr("jobs.storage._CONFLICT_SECONDS", 0.001)
    s3.conflicts = 100
    with pytest.raises(BatchError, match=r"prefix/a cannot be written: other requests change it"):
        open_folder("s3://bucket/prefix").create("a", b"data")
