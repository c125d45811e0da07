"""Loading an artifact: reading the manifest, and each reason to reject it."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.core.artifact import Golden, load_artifact, parse_manifest
from embedder.core.errors import ArtifactError


def manifest() -> dict[str, Any]:
    return {
        "format_version": 4,
        "task": "embed",
        "scoring": None,
        "model": {
            "name": "acme/model",
            "revision": "0123",
            "architecture": "bert",
            "license": None,
        },
        "vector_space": "model@0123/int8/4567",
        "precision": "int8",
        "dimensions": [384, 128],
        "max_tokens": 256,
        "max_characters": None,
        "prompts": {"query": "q: "},
        "default_prompt": "query",
        "tokenizer": {"kind": "wordpiece", "file": "tokenizer.bin", "reason": None},
        "graph": {
            "runtime": "onnxruntime",
            "file": "model.onnx",
            "inputs": ["input_ids", "attention_mask"],
            "output": "sentence_embedding",
            "optimization": "none",
        },
        "fidelity": {"cosine_min": 0.99},
        "golden": [{"text": "a", "prompt": None, "embedding_head": [0.5, 1]}],
        "files": {
            "model.onnx": {"bytes": 5, "sha256": "00"},
            "tokenizer.bin": {"bytes": 0, "sha256": "11"},
        },
    }


def sealed(content: dict[str, Any]) -> bytes:
    canonical = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    checksum = hashlib.blake2b(canonical, digest_size=32).hexdigest()
    return json.dumps({**content, "checksum": checksum}).encode()


def write(folder: Path, content: bytes) -> Path:
    (folder / "manifest.json").write_bytes(content)
    (folder / "model.onnx").write_bytes(b"graph")
    (folder / "tokenizer.bin").write_bytes(b"")
    return folder


def test_every_field_is_read(tmp_path):
    """The values and their types are those of the file."""
    artifact = load_artifact(write(tmp_path, sealed(manifest())))
    loaded = artifact.manifest
    assert loaded.model.name == "acme/model"
    assert loaded.model.license is None
    assert loaded.dimensions == (384, 128)
    assert loaded.full_dimensions == 384
    assert loaded.vector_space_of(dimensions=128) == "model@0123/int8/4567/128"
    assert loaded.graph.inputs == ("input_ids", "attention_mask")
    assert loaded.golden == (Golden("a", None, (0.5, 1.0)),)
    assert loaded.files["model.onnx"].bytes == 5
    assert artifact.graph_path == str(tmp_path / "model.onnx")


def test_a_folder_that_is_no_artifact(tmp_path):
    """The error names the missing file and explains how to compile an artifact."""
    with pytest.raises(
        ArtifactError, match=r"manifest.json cannot be read \(No such file.*--output"
    ):
        load_artifact(tmp_path)


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"3", b'"\xff"'])
def test_a_manifest_that_is_no_object(raw):
    """Anything but a JSON object is refused, and the error names the file."""
    with pytest.raises(ArtifactError, match=r"^M (is not JSON|must be a JSON object)"):
        parse_manifest(raw, where="M")


def test_a_newer_format_is_refused_first(tmp_path):
    """The format version is checked before all other fields, including the checksum."""
    with pytest.raises(ArtifactError, match=r"format_version 5; this embedder reads 4\. Compile"):
        load_artifact(write(tmp_path, json.dumps({"format_version": 5, "surprise": True}).encode()))


@given(st.sampled_from(sorted(manifest())), st.none() | st.booleans() | st.integers() | st.text())
def test_a_manifest_edited_by_hand(key, value):
    """A change of any field to any value without a new checksum is refused."""
    raw = json.loads(sealed(manifest()))
    if raw[key] != value or type(raw[key]) is not type(value):
        raw[key] = value
        with pytest.raises(ArtifactError, match=r"was changed after|format_version"):
            parse_manifest(json.dumps(raw).encode(), where="M")


@pytest.mark.parametrize("name", ["../x", "/etc/x", "..", ""])
def test_a_file_outside_of_the_folder_is_refused(name):
    """The manifest may only name files in its own folder, because a checksum is not a signature."""
    content = manifest()
    content["files"][name] = {"bytes": 1, "sha256": ""}
    with pytest.raises(ArtifactError, match=re.escape(f"own folder; found {name!r}")):
        parse_manifest(sealed(content), where="M")


def test_files_that_are_not_as_the_manifest_says(tmp_path):
    """The error names a missing file, and gives both sizes of a truncated file."""
    write(tmp_path, sealed(manifest()))
    (tmp_path / "model.onnx").write_bytes(b"grap")
    with pytest.raises(ArtifactError, match=r"model.onnx has 4 bytes and the manifest says 5"):
        load_artifact(tmp_path)
    (tmp_path / "model.onnx").unlink()
    with pytest.raises(ArtifactError, match=r"model.onnx .* cannot be read \(No such file"):
        load_artifact(tmp_path)
