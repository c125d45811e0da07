"""An artifact in three files, packed into an object of seven parts that a server sends."""

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from embedder.artifact import FORMAT_VERSION, manifest_checksum
from embedder.artifact_download.download import download
from embedder.aws.credentials import CredentialsProvider
from model_compiler.artifact.packed import write_object, write_parts
from tests.fixtures.s3_object_server import REGION, S3Server, serving_object

#: Bytes of a part: the object has six whole ones and a part of one.
PART = 10_000
FILES = {"model.onnx": 1_234, "model.onnx.data": 50_000, "tokenizer.bin": 9_000, "empty": 0}


def write_artifact(folder: Path, *, seed: int = 0) -> Path:
    """Write a folder with random files and a manifest that is valid for them."""
    folder.mkdir()
    entries = {}
    for name, size in FILES.items():
        content = random.Random(f"{name} {seed}").randbytes(size)
        (folder / name).write_bytes(content)
        entries[name] = {"bytes": size, "sha256": hashlib.sha256(content).hexdigest()}
    document = {
        "format_version": FORMAT_VERSION,
        "model": {"name": "a", "revision": "b", "architecture": "bert", "license": None},
        "vector_space": f"space-{seed}",
        "precision": "int8",
        "dimensions": [4],
        "max_tokens": 16,
        "max_characters": None,
        "prompts": {},
        "default_prompt": None,
        "tokenizer": {"kind": "wordpiece", "file": "tokenizer.bin", "reason": None},
        "graph": {
            "runtime": "onnxruntime",
            "file": "model.onnx",
            "inputs": ["input_ids"],
            "output": "sentence_embedding",
            "optimization": "none",
        },
        "fidelity": {},
        "golden": [],
        "files": entries,
    }
    document["checksum"] = manifest_checksum(document)
    (folder / "manifest.json").write_bytes(orjson.dumps(document))
    return folder


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    return write_artifact(tmp_path / "compiled")


@pytest.fixture
def package(artifact: Path, tmp_path: Path) -> Path:
    """Return the folder that travels in the function's package."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "manifest.json").write_bytes((artifact / "manifest.json").read_bytes())
    write_parts(artifact, folder / "parts.json", part_bytes=PART)
    return folder


@pytest.fixture
def server(artifact: Path, tmp_path: Path) -> Iterator[S3Server]:
    write_object(artifact, tmp_path / "object")
    with serving_object((tmp_path / "object").read_bytes()) as state:
        yield state


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Do not wait before a retry, and record for how long it would have been."""
    found: list[float] = []

    def chosen(_: float, high: float) -> float:
        found.append(high)
        return 0.0

    monkeypatch.setattr("embedder.artifact_download.transfer.random.uniform", chosen)
    return found


@pytest.fixture
def fetch(server: S3Server, package: Path, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that downloads the artifact as a start does."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environ = {
        "AWS_ACCESS_KEY_ID": server.keys[0],
        "AWS_SECRET_ACCESS_KEY": server.keys[1],
        "AWS_SESSION_TOKEN": server.token,
    }

    def run(**options: object) -> Path:
        given = {"credentials": CredentialsProvider(environ), "package": package} | options
        return Path(
            download(
                server.location,
                temporary=temporary,
                region=REGION,
                endpoint=server.url,
                **given,  # type: ignore[arg-type]
            )
        )

    return run
