"""A model's folder in S3: read before a build, again only where an object has changed."""

import hashlib
import io
from pathlib import Path

import pytest
from botocore.exceptions import ClientError, IncompleteReadError
from botocore.response import StreamingBody

from embedding_client import progress
from embedding_kit.image_identity import build_arguments
from embedding_kit.settings import ModelSettings
from embedding_kit.settings.model import s3_place
from operations import model_download
from operations.model_download import download
from stacks.environment_file import EnvironmentFileError, load_environment

from .conftest import Stubbed

FILES = {"modules.json": b"[]", "1_Pooling/config.json": b"{}", "model.safetensors": b"weights"}


class Store:
    """A client of S3 that answers with some files, in order, and checks each request."""

    def __init__(self, prefix: str = "models/own") -> None:
        self.stub = Stubbed().stubs["s3"]
        self.client = self.stub.client
        self.prefix = prefix

    def lists(self, files: dict[str, bytes]) -> None:
        """Answer a listing, with a folder of the console."""
        names = [*files, ""]
        contents = [
            {"Key": f"{self.prefix}/{name}", "ETag": etag(files.get(name, b""))} for name in names
        ]
        self.stub.add_response(
            "list_objects_v2", {"Contents": contents}, {"Bucket": "b", "Prefix": f"{self.prefix}/"}
        )

    def serves(self, name: str, content: bytes, *, missing: int = 0) -> None:
        """Answer one object; with `missing` bytes, the connection ends before them."""
        body = StreamingBody(io.BytesIO(content[: len(content) - missing]), str(len(content)))
        request = {"Bucket": "b", "Key": f"{self.prefix}/{name}", "IfMatch": etag(content)}
        answer = {"Body": body, "ContentLength": len(content)}
        self.stub.add_response("get_object", answer, request)

    def download(self, folder: Path) -> None:
        """Download, with all of the answers."""
        download(self.client, "b", self.prefix, folder)
        self.stub.assert_no_pending_responses()


def etag(content: bytes) -> str:
    return f'"{hashlib.md5(content).hexdigest()}"'


def files_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """Return the place of s3://bucket/models/own in a new cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cached = ModelSettings.model_validate({"folder": "s3://bucket/models/own/"}).folder
    assert cached is not None
    return cached


def test_a_folder_is_downloaded_once(folder, monkeypatch, capsys):
    """Progress is shown. The second time it reads ETags, and only a changed object again."""
    monkeypatch.setattr(progress, "_INTERVAL", 0)
    store = Store()
    store.lists(FILES)
    for name, content in FILES.items():
        store.serves(name, content)
    store.download(folder)
    assert "model.safetensors: 1 of 1 MiB (100%)" in capsys.readouterr().err
    assert files_of(folder).items() >= FILES.items()
    before = build_arguments(ModelSettings(folder=folder))["FILES"]
    store.lists(FILES)
    store.download(folder)
    assert build_arguments(ModelSettings(folder=folder))["FILES"] == before
    store.lists({**FILES, "modules.json": b"[1]"})
    store.serves("modules.json", b"[1]")
    store.download(folder)
    assert files_of(folder).items() >= (FILES | {"modules.json": b"[1]"}).items()
    assert build_arguments(ModelSettings(folder=folder))["FILES"] != before


def test_an_interrupted_download_goes_on(folder):
    """Complete files are kept, a cut one is not, and the folder appears when it is complete."""
    store = Store()
    store.lists(FILES)
    store.serves("modules.json", FILES["modules.json"])
    store.serves("1_Pooling/config.json", FILES["1_Pooling/config.json"], missing=1)
    with pytest.raises(IncompleteReadError):
        store.download(folder)
    assert not folder.exists()
    store.lists(FILES)
    for name in ("1_Pooling/config.json", "model.safetensors"):
        store.serves(name, FILES[name])
    store.download(folder)
    assert files_of(folder).items() >= FILES.items()
    assert [path.name for path in folder.parent.iterdir() if "own." in path.name] == []


def test_an_object_that_is_replaced_meanwhile(folder):
    """Files of two versions never become one folder."""
    store = Store()
    store.lists(FILES)
    store.stub.add_client_error("get_object", "PreconditionFailed", http_status_code=412)
    with pytest.raises(ClientError, match="PreconditionFailed"):
        store.download(folder)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "must hold modules.json or adapter_config.json or config.json; found: no object"),
        ({"notes.txt": b""}, "found: notes.txt"),
        ({"modules.json": b"", "../x": b""}, "path of a file in a folder; found: '../x'"),
        ({"modules.json": b"", "a//b": b""}, "path of a file in a folder; found: 'a//b'"),
        ({"modules.json": b"", "s3-objects.json": b""}, "a folder; found: 's3-objects.json'"),
    ],
)
def test_objects_that_are_no_folder(folder, files, message):
    """An empty prefix, something else, or a name that leaves the folder is refused."""
    store = Store()
    store.lists(files)
    with pytest.raises(ValueError, match=message):
        store.download(folder)


def test_an_environment_with_a_folder_in_s3(tmp_path, monkeypatch, folder):
    """The file names the folder alone; the command reads it with the environment's session."""
    (tmp_path / "own.toml").write_text('[model]\nfolder = "s3://bucket/models/own"\n')
    (tmp_path / "other.toml").write_text('[model]\nname = "acme/model"\n')
    model = load_environment("own", folder=tmp_path).model
    assert (model.name, model.folder) == ("own", folder)
    assert s3_place(folder) == ("bucket", "models/own")
    with pytest.raises(FileNotFoundError, match="`scripts/deploy` and `scripts/build` download"):
        build_arguments(model)
    store, read = Store(), []
    monkeypatch.setattr(store, "create_client", lambda *_, **__: store.client, raising=False)
    monkeypatch.setattr(model_download, "download", lambda *location: read.append(location))

    def download_for(name):
        environment = load_environment(name, folder=tmp_path)
        model_download.download_models(environment, lambda: store)

    download_for("own")
    download_for("other")
    assert read == [(store.client, "bucket", "models/own", folder)]
    text = '[model]\nname = "acme/model"\n[index]\n[standby]\nfolder = "s3://bucket/models/own"\n'
    shared = 'index_dimension = 9\n[reranker]\nfolder = "s3://bucket/models/ranker"\n'
    (tmp_path / "two.toml").write_text(
        text.replace("[index]", "index_dimension = 9\n[index]") + shared
    )
    download_for("two")
    assert [location[2] for location in read[1:]] == ["models/ranker", "models/own"]


@pytest.mark.parametrize(
    "url", ["s3://bucket", "s3://B/x", "s3:/bucket/x", "s3://bucket/" + "x" * 201]
)
def test_a_place_that_is_no_folder(tmp_path, url):
    """A bucket alone, a wrong name or a prefix that is too long is refused."""
    (tmp_path / "own.toml").write_text(f'[model]\nfolder = "{url}"\n')
    with pytest.raises(EnvironmentFileError, match=r"own\.toml: model: a .*folder in S3"):
        load_environment("own", folder=tmp_path)
