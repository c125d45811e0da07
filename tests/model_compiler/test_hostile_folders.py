"""Folders that were made to harm: refused in one printable line, quickly, and nothing leaks."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from model_compiler.__main__ import main
from tests.model_compiler.model.test_onnx_import import export

Capture = pytest.CaptureFixture[str]
#: Clears the screen in the two ways that there are, begins another line, and turns the text around.
NAME = "\x1b[2J\x9b2J\rerror: \n\u202efine"
SHOWN = r"\x1b[2J\x9b2J\rerror: \n\u202efine"


def refused(folder: Path, capture: Capture) -> list[str]:
    """Compile and inspect a folder, and return both messages, each of one printable line."""
    output = folder.parent / "artifact"
    assert main([str(folder), "--output", str(output), "--quiet"]) == 2
    assert not output.exists()
    compiled = capture.readouterr()
    assert compiled.out == ""
    assert main(["inspect", str(folder)]) in {1, 2}
    inspected = capture.readouterr()
    assert main(["inspect", "--json", str(folder)]) in {1, 2}
    as_json = capture.readouterr().out
    assert as_json.isascii()
    for text in (compiled.err, inspected.out + inspected.err):
        assert all(line.isprintable() for line in text.split("\n"))
    *notes, error = compiled.err.splitlines()
    assert error.startswith("error: ")
    assert all(note.startswith("note: ") for note in notes)
    return [error, inspected.out + inspected.err]


def a_tensor(folder: Path) -> None:
    tensors = load_file(folder / "model.safetensors")
    save_file({**tensors, NAME: np.zeros(1, np.float32)}, folder / "model.safetensors")


def a_key(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), NAME: 1}))


def a_value(folder: Path) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": NAME}))


def a_module(folder: Path) -> None:
    path = folder / "modules.json"
    first, *rest = json.loads(path.read_text())
    path.write_text(json.dumps([{**first, "path": NAME}, *rest]))


def a_file(folder: Path) -> None:
    (folder / "modules.json").rename(folder / NAME)


def an_operator(folder: Path) -> None:
    use_export(folder)

    def rename(model: onnx.ModelProto) -> None:
        model.graph.node[0].domain = NAME

    export(folder / "model.onnx", edit=rename)


def an_input(folder: Path) -> None:
    use_export(folder)

    def rename(model: onnx.ModelProto) -> None:
        model.graph.input[0].name = NAME

    export(folder / "model.onnx", edit=rename)


def use_export(folder: Path) -> None:
    """Leave an export as the only way to the model."""
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "model_type": "deberta-v2"}))
    (folder / "model.safetensors").unlink()


@pytest.mark.parametrize(
    "named", [a_tensor, a_key, a_value, a_module, a_file, an_operator, an_input]
)
def test_no_name_reaches_the_terminal_as_it_is(
    tiny_folder: Path, named: Callable[[Path], None], capsys: Capture
) -> None:
    """Each message that names a part of a model escapes what a terminal would obey."""
    named(tiny_folder)
    (error, _) = refused(tiny_folder, capsys)
    assert SHOWN in error.replace(r"\\", "\\")


def test_notes_escape_names_too(tiny_folder: Path, tmp_path: Path, capsys: Capture) -> None:
    """So do the notes of a model that compiles."""
    token = {"id": 77, "content": NAME, "special": True, "normalized": False}
    token |= dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    path = tiny_folder / "tokenizer.json"
    document = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**document, "added_tokens": [*document["added_tokens"], token]}))
    assert main([str(tiny_folder), "--output", str(tmp_path / "artifact"), "--unmeasured"]) == 0
    assert SHOWN in capsys.readouterr().out


def linked_file(folder: Path, secret: Path) -> None:
    (folder / "config_sentence_transformers.json").unlink()
    (folder / "config_sentence_transformers.json").symlink_to(secret)


def linked_module(folder: Path, secret: Path) -> None:
    shutil.move(folder / "1_Pooling", secret.parent)
    (folder / "1_Pooling").symlink_to(secret.parent / "1_Pooling")


def linked_weights(folder: Path, secret: Path) -> None:
    shutil.move(folder / "model.safetensors", secret.parent)
    (folder / "model.safetensors").symlink_to("../model.safetensors")


def linked_data(folder: Path, secret: Path) -> None:
    use_export(folder)
    export(folder / "model.onnx", external=True)
    shutil.move(folder / "model.onnx_data", secret.parent)
    (folder / "model.onnx_data").symlink_to(secret.parent / "model.onnx_data")


def linked_twice(folder: Path, secret: Path) -> None:
    (folder / "step").symlink_to(secret)
    (folder / "sentence_bert_config.json").unlink()
    (folder / "sentence_bert_config.json").symlink_to("step")


def a_false_cache(folder: Path, secret: Path) -> None:
    """Beside a folder that is named like a cache's, another one leads elsewhere."""
    (folder / "vocab.txt").symlink_to("../../blobs/secret.json")
    (folder.parents[1] / "blobs").symlink_to(secret.parent)


@pytest.mark.parametrize(
    "link", [linked_file, linked_module, linked_weights, linked_data, linked_twice, a_false_cache]
)
def test_no_link_leaves_the_folder(
    tiny_folder: Path, link: Callable[[Path, Path], None], tmp_path: Path, capsys: Capture
) -> None:
    """A file of somewhere else would be in the artifact, or in a message."""
    (tmp_path / "outside").mkdir()
    secret = tmp_path / "outside" / "secret.json"
    secret.write_text('{"key": "a secret"}')
    folder = tmp_path / "hub" / "snapshots" / "tiny"
    folder.parent.mkdir(parents=True)
    tiny_folder.rename(folder)
    link(folder, secret)
    for message in refused(folder, capsys):
        assert " is a link to " in message
        assert "a secret" not in message


def test_links_inside_are_followed(tiny_folder: Path, tmp_path: Path) -> None:
    """A folder may link to its own files, and a snapshot of a hub's cache to the cache's blobs."""
    (tiny_folder / "model.safetensors").rename(tiny_folder / "weights")
    (tiny_folder / "model.safetensors").symlink_to("weights")
    assert main(["inspect", str(tiny_folder)]) == 0
    snapshot = tmp_path / "models--acme--tiny" / "snapshots" / "0123abc"
    blobs = snapshot.parents[1] / "blobs"
    blobs.mkdir(parents=True)
    for number, path in enumerate(sorted(tiny_folder.rglob("*.*"))):
        link = snapshot / path.relative_to(tiny_folder)
        link.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, blobs / str(number))
        up = "../" * len(link.relative_to(snapshot.parents[1]).parents[:-1])
        link.symlink_to(f"{up}blobs/{number}")
    assert main(["inspect", str(snapshot)]) == 0
