"""Fetching from a hub: a small one, on this machine, that speaks the protocol's few requests."""

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import huggingface_hub.constants
import pytest

from model_compiler.errors import LicenseError, SourceError
from model_compiler.graph.quantization import Precision
from model_compiler.source import catalogue, hub
from model_compiler.source.catalogue import CatalogueEntry, License, Repository
from model_compiler.source.find import find_source
from tests.model_compiler.conftest import Edit
from tests.model_compiler.goldens.tiny_models import write_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """Repositories by name, each a folder; records the requests and their tokens."""

    repositories: dict[str, Path] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    endpoint: str = ""
    commit: str = COMMIT

    def paths(self) -> list[str]:
        """Return the files that were fetched, without their repository."""
        return sorted(
            path.partition(f"/resolve/{self.commit}/")[2]
            for path, _ in self.asked
            if "/resolve/" in path
        )


def handler_of(served: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(body=True)

        def do_HEAD(self) -> None:
            self._answer(body=False)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def _answer(self, *, body: bool) -> None:
            path = unquote(urlsplit(self.path).path)
            token = self.headers.get("Authorization")
            if body:
                served.asked.append((path, token))
            is_api = path.startswith("/api/models/")
            rest = path.removeprefix("/api/models/").lstrip("/")
            owner, name, *more = rest.split("/")
            folder = served.repositories.get(f"{owner}/{name}")
            if folder is None:
                self._send(404, b"", {"X-Error-Code": "RepoNotFound"}, body=body)
            elif f"{owner}/{name}" in served.gated and not is_api and token != "Bearer right":
                self._send(403, b"", {"X-Error-Code": "GatedRepo"}, body=body)
            elif len(more) > 1 and more[1] not in {served.commit, "main"}:
                self._send(404, b"", {"X-Error-Code": "RevisionNotFound"}, body=body)
            elif is_api:
                self._send(
                    200, json.dumps(_api(folder, more, served.commit)).encode(), {}, body=body
                )
            else:
                content = (folder / "/".join(more[2:])).read_bytes()
                headers = {"ETag": f'"{_hash(content)}"', "X-Repo-Commit": served.commit}
                self._send(200, content, headers, body=body)

        def _send(
            self, status: int, content: bytes, headers: dict[str, str], *, body: bool
        ) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            if body:
                self.wfile.write(content)

    return Handler


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _api(folder: Path, more: list[str], commit: str) -> object:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    if more[:1] == ["tree"]:
        return [
            {
                "type": "file",
                "path": path.relative_to(folder).as_posix(),
                "size": path.stat().st_size,
                "oid": _hash(path.read_bytes())[:40],
            }
            for path in files
        ]
    return {
        "id": "acme/tiny",
        "modelId": "acme/tiny",
        "sha": commit,
        "private": False,
        "tags": ["sentence-transformers", "license:mit"],
        "siblings": [{"rfilename": path.relative_to(folder).as_posix()} for path in files],
    }


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve a hub on this machine, with a separate cache for its client."""
    served = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(served))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    served.endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setenv("HF_ENDPOINT", served.endpoint)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    yield served
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def tiny(served: Hub, tmp_path: Path) -> Path:
    """Put a model on the hub, as acme/tiny."""
    folder = write_model(tmp_path / "repository")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    (folder / "README.md").write_text("A model.")
    served.repositories["acme/tiny"] = folder
    return folder


def test_a_repository_is_fetched_at_its_commit(served: Hub, tiny: Path) -> None:
    """Only files that the compiler reads are downloaded; commit and license are recorded."""
    source = find_source("acme/tiny")
    assert source.revision == COMMIT
    assert source.license == "mit"
    assert (source.folder / "model.safetensors").read_bytes() == (
        tiny / "model.safetensors"
    ).read_bytes()
    assert served.paths() == [
        "1_Pooling/config.json",
        "config.json",
        "config_sentence_transformers.json",
        "model.safetensors",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_second_fetch_comes_from_the_cache(served: Hub, tiny: Path) -> None:
    """The files of a commit are downloaded once."""
    find_source("acme/tiny", revision=COMMIT)
    fetched = len(served.paths())
    find_source("acme/tiny", revision=COMMIT)
    assert len(served.paths()) == fetched


def test_an_export_is_fetched_in_one_variant(served: Hub, tiny: Path) -> None:
    """Of a dozen variants, only the selected export and its reference are downloaded."""
    (tiny / "model.safetensors").unlink()
    (tiny / "onnx").mkdir()
    for name in ("model", "model_quantized", "model_q4", "model_fp16"):
        (tiny / "onnx" / f"{name}.onnx").write_bytes(f"graph {name}".encode())
        (tiny / "onnx" / f"{name}.onnx_data").write_bytes(f"weights {name}".encode())
    find_source("acme/tiny", precision=Precision.INT8)
    assert [path for path in served.paths() if "onnx" in path] == [
        "onnx/model.onnx",
        "onnx/model.onnx_data",
        "onnx/model_quantized.onnx",
        "onnx/model_quantized.onnx_data",
    ]


def test_an_export_beside_weights(served: Hub, tiny: Path, edit_json: Edit) -> None:
    """It is downloaded only if the weights are of an unknown family."""
    (tiny / "onnx").mkdir()
    for name in ("model", "model_quantized"):
        (tiny / "onnx" / f"{name}.onnx").write_bytes(b"graph")
    find_source("acme/tiny")
    assert "model.safetensors" in served.paths()
    assert not any("onnx" in path for path in served.paths())
    served.asked.clear()
    edit_json(tiny / "config.json", model_type="modernbert")
    served.commit = "1" * 40
    find_source("acme/tiny")
    assert "model.safetensors" not in served.paths()
    assert [path for path in served.paths() if "onnx" in path] == ["onnx/model.onnx"]


def test_a_gated_repository(served: Hub, tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the token the error says where to accept the terms and what to set."""
    served.gated.add("acme/tiny")
    with pytest.raises(SourceError, match=r"acme/tiny is gated: accept its terms.*set HF_TOKEN"):
        find_source("acme/tiny")
    monkeypatch.setenv("HF_TOKEN", "right")
    assert find_source("acme/tiny").revision == COMMIT


def test_what_is_not_there(served: Hub, tiny: Path) -> None:
    """A repository and a revision that do not exist are named."""
    with pytest.raises(SourceError, match=r"acme/none does not exist, or is private"):
        find_source("acme/none")
    with pytest.raises(SourceError, match=r"acme/tiny has no revision 'v9'"):
        find_source("acme/tiny", revision="v9")


def test_a_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the address of the hub."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(SourceError, match=r"http://127.0.0.1:9/acme/tiny cannot be reached"):
        find_source("acme/tiny")


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., CatalogueEntry]:
    """Put a model into the catalogue."""

    def add(**options: object) -> CatalogueEntry:
        values: dict[str, object] = {
            "name": "acme/tiny",
            "license": License("mit", "https://example.com/mit"),
            "repositories": (Repository("acme/tiny", revision=COMMIT),),
            **options,
        }
        entry = CatalogueEntry(**values)  # type: ignore[arg-type]
        monkeypatch.setattr(catalogue, "CATALOGUE", (entry,))
        return entry

    return add


def test_the_catalogues_hashes_are_checked(
    served: Hub, tiny: Path, listed: Callable[..., CatalogueEntry]
) -> None:
    """The error for a file with another hash has both hashes."""
    right = _hash((tiny / "config.json").read_bytes())
    listed(sha256={"config.json": right})
    assert find_source("tiny").revision == COMMIT
    listed(sha256={"config.json": "0" * 64})
    with pytest.raises(
        SourceError, match=f"config.json has sha256 {right}; {'0' * 64} was expected"
    ):
        find_source("tiny")


def test_mirrors_are_tried_in_turn(
    served: Hub, tiny: Path, listed: Callable[..., CatalogueEntry]
) -> None:
    """If the original is gated, a mirror is used; if none works, the error has each reason."""
    served.repositories["acme/original"] = tiny
    served.gated.add("acme/original")
    original = Repository("acme/original", gated=True)
    listed(name="acme/original", repositories=(original, Repository("acme/tiny")))
    assert find_source("original").name == "acme/original"
    listed(name="acme/original", repositories=(original, Repository("acme/gone")))
    with pytest.raises(SourceError, match=r"acme/original is gated.*acme/gone does not exist"):
        find_source("original")


def test_terms_have_to_be_accepted(
    served: Hub, tiny: Path, listed: Callable[..., CatalogueEntry]
) -> None:
    """Nothing is downloaded before that, and the error explains how to accept them."""
    listed(license=License("gemma", "https://ai.google.dev/gemma/terms", must_be_accepted=True))
    with pytest.raises(LicenseError) as refused:
        find_source("acme/tiny", accepted_licenses=["mit"])
    message = str(refused.value)
    assert "https://ai.google.dev/gemma/terms" in message
    assert "--accept-license gemma" in message
    assert 'accept_license = "gemma"' in message
    assert served.asked == []
    assert find_source("acme/tiny", accepted_licenses=["gemma"]).license == "gemma"


def test_names_of_repositories() -> None:
    """A name has two parts with a slash between them, and is not a path."""
    assert hub.is_repository_name("google/embeddinggemma-300m")
    assert not hub.is_repository_name("embeddinggemma-300m")
    assert not hub.is_repository_name("./models/mine")
    assert not hub.is_repository_name("a/b/c")
