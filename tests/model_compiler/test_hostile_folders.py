"""Folders that were made to harm: refused in one printable line, quickly, and nothing leaks."""

import base64
import errno
import json
import os
import re
import shutil
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from model_compiler.command import main
from model_compiler.errors import CompilerError
from model_compiler.files.config import INTEGER, INTEGER_OF
from model_compiler.model.folder import read_model_folder
from model_compiler.tokenizer import file as tokenizer_file
from model_compiler.tokenizer.character_map import write_charsmap
from tests.model_compiler.files.test_adapter import put_adapter
from tests.model_compiler.goldens.families import FAMILIES, write_family
from tests.model_compiler.goldens.files import (
    change_tensors,
    edit_json,
    read_json,
    special_tokens,
    write_json,
)
from tests.model_compiler.goldens.setting_changes import change_file
from tests.model_compiler.goldens.tiny_models import TOKENS
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


def use_export(folder: Path, **options: Any) -> None:
    """Leave an export as the only way to the model."""
    edit_json(folder / "config.json", model_type="deberta-v2")
    (folder / "model.safetensors").unlink()
    export(folder / "model.onnx", **options)


#: What gives a part of a model the name.
NAMED: dict[str, Callable[[Path], object]] = {
    "tensor": lambda folder: change_tensors(
        folder, lambda tensors: {**tensors, NAME: np.zeros(1, np.float32)}
    ),
    "key": lambda folder: edit_json(folder / "config.json", **{NAME: 1}),
    "value": lambda folder: edit_json(folder / "config.json", model_type=NAME),
    "module": lambda folder: change_file(folder / "modules.json", {"0.path": NAME}),
    "file": lambda folder: (folder / "modules.json").rename(folder / NAME),
    "operator": lambda folder: use_export(
        folder, edit=lambda model: setattr(model.graph.node[0], "domain", NAME)
    ),
    "input": lambda folder: use_export(
        folder, edit=lambda model: setattr(model.graph.input[0], "name", NAME)
    ),
}


@pytest.mark.parametrize("part", NAMED)
def test_no_name_reaches_the_terminal_as_it_is(tiny_folder, part, capsys):
    """Each message that names a part of a model escapes what a terminal would obey."""
    NAMED[part](tiny_folder)
    (error, _) = refused(tiny_folder, capsys)
    assert SHOWN in error.replace(r"\\", "\\")


def test_notes_escape_names_too(tiny_folder, tmp_path, capsys):
    """So do the notes of a model that compiles."""
    path = tiny_folder / "tokenizer.json"
    tokens = read_json(path)["added_tokens"] + special_tokens({NAME: 77})
    edit_json(path, added_tokens=tokens)
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
    use_export(folder, external=True)
    shutil.move(folder / "model.onnx_data", secret.parent)
    (folder / "model.onnx_data").symlink_to(secret.parent / "model.onnx_data")


def linked_twice(folder: Path, secret: Path) -> None:
    (folder / "step").symlink_to(secret)
    (folder / "sentence_bert_config.json").unlink()
    (folder / "sentence_bert_config.json").symlink_to("step")


def a_false_cache(folder: Path, secret: Path) -> None:
    """Next to a folder that is named like a cache's, another one leads elsewhere."""
    (folder / "vocab.txt").symlink_to("../../blobs/secret.json")
    (folder.parents[1] / "blobs").symlink_to(secret.parent)


@pytest.mark.parametrize(
    "link", [linked_file, linked_module, linked_weights, linked_data, linked_twice, a_false_cache]
)
def test_no_link_leaves_the_folder(tiny_folder, link, tmp_path, capsys):
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


def test_links_inside_are_followed(tiny_folder, tmp_path):
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


Change = Callable[[Any], Any]


def replaced(part: str, **options: Any) -> Change:
    """Return what gives a tokenizer another part."""
    return lambda document: {**document, part: options}


def with_model(**options: Any) -> Change:
    """Return what changes a tokenizer's model."""
    return lambda document: {**document, "model": {**document["model"], **options}}


def replace(content: str, **pattern: str) -> dict[str, Any]:
    return {"type": "Replace", "pattern": pattern, "content": content}


def charsmap(replacement: str) -> str:
    return base64.b64encode(write_charsmap({"e": replacement})).decode()


def nested(depth: int) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "NFC"}
    for _ in range(depth):
        part = {"type": "Sequence", "normalizers": [part, {"type": "NFC"}]}
    return part


TOKENS_AROUND = [{"Sequence": {"id": "A", "type_id": 0}}] * 1_000
TOO_LARGE: dict[str, tuple[str, Change, str]] = {
    "strings": (
        "config_sentence_transformers.json",
        lambda value: {**value, "prompts": {"query": "x" * 100_001}},
        "a string has 100001 characters; at most 100000 are allowed",
    ),
    "keys": (
        "config.json",
        lambda value: {**value, "x" * 100_001: None},
        "a string has 100001 characters; at most 100000 are allowed",
    ),
    "entries of an object": (
        "config.json",
        lambda value: {**value, "id2label": {f"{i}": "" for i in range(100_001)}},
        "a list or an object has 100001 entries; at most 100000 are allowed",
    ),
    "entries of a list": (
        "config.json",
        lambda value: {**value, "architectures": [["BertModel"] * 100_001]},
        "a list or an object has 100001 entries; at most 100000 are allowed",
    ),
    "modules": (
        "modules.json",
        lambda value: [*value[:2], *value[2:] * 100],
        "a list or an object has 102 entries; at most 100 are allowed",
    ),
    "poolings": (
        "1_Pooling/config.json",
        lambda value: {**value, "pooling_mode": ["mean"] * 7},
        "pooling_mode must be a string or a list of up to 6 strings",
    ),
    "a piece of Unigram": (
        "tokenizer.json",
        with_model(type="Unigram", vocab=[["a", 0.0], ["b" * 513, 0.0]], unk_id=0),
        "an entry of model.vocab has 513 characters; at most 512 are allowed",
    ),
    "an added token": (
        "tokenizer.json",
        lambda document: {**document, "added_tokens": [{"id": 5, "content": "x" * 20_000}]},
        "an entry of added_tokens has 20000 characters; at most 512",
    ),
    "a merge": (
        "tokenizer.json",
        with_model(type="BPE", vocab={"a": 0}, merges=["a " + "b" * 1_024]),
        "an entry of model.merges has 1026 characters; at most 1025 are allowed",
    ),
    "an option of the model": (
        "tokenizer.json",
        with_model(continuing_subword_prefix="#" * 16_385),
        "model: a string has 16385 characters; at most 16384 are allowed",
    ),
    "a regular expression": (
        "tokenizer.json",
        replaced("pre_tokenizer", type="Split", pattern={"Regex": "a|" * 8_193}),
        "pre_tokenizer: a string has 16386 characters; at most 16384 are allowed",
    ),
    "normalizers": (
        "tokenizer.json",
        replaced("normalizer", type="Sequence", normalizers=[{"type": "NFC"}] * 500),
        "normalizer has 1002 values; at most 1000 are allowed",
    ),
    "sequences in sequences": (
        "tokenizer.json",
        replaced("normalizer", **nested(200)),
        "normalizer has 1001 values; at most 1000 are allowed",
    ),
    "tokens around a text": (
        "tokenizer.json",
        replaced("post_processor", type="TemplateProcessing", single=TOKENS_AROUND),
        "post_processor has 4002 values; at most 1000 are allowed",
    ),
    "parts": (
        "tokenizer.json",
        lambda document: {**document, **{f"part {number}": None for number in range(1_000)}},
        " values; at most 1000 are allowed",
    ),
    "a chain of replacements": (
        "tokenizer.json",
        replaced("normalizer", type="Sequence", normalizers=[replace("e" * 10, String="e")] * 8),
        "can make a text more than 1000 times longer",
    ),
    "a replacement of nothing": (
        "tokenizer.json",
        replaced("normalizer", **replace("e" * 1_000, Regex="x*")),
        "can make a text more than 1000 times longer",
    ),
    "a long prefix": (
        "tokenizer.json",
        replaced(
            "normalizer", type="Sequence", normalizers=[{"type": "Prepend", "prepend": "ab"}] * 9
        ),
        "can make a text more than 1000 times longer",
    ),
    "bytes of bytes": (
        "tokenizer.json",
        replaced("pre_tokenizer", type="Sequence", pretokenizers=[{"type": "ByteLevel"}] * 5),
        "can make a text more than 1000 times longer",
    ),
    "a map of characters": (
        "tokenizer.json",
        replaced("normalizer", type="Precompiled", precompiled_charsmap=charsmap("e" * 2_000)),
        "can make a text more than 1000 times longer",
    ),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_no_list_and_no_string_is_too_long(tiny_folder, case, capsys):
    """What would take minutes, or all memory, is refused by its size."""
    file, change, expected = TOO_LARGE[case]
    write_json(tiny_folder / file, change(read_json(tiny_folder / file)))
    for message in refused(tiny_folder, capsys):
        assert f"{Path(file).name}" in message
        assert expected in message


def test_a_size_is_counted_in_proportion_to_it(tiny_folder, capsys):
    """A hundred times the parts take about a hundred times the time, not ten thousand times."""
    many = replaced("normalizer", type="Sequence", normalizers=[{"type": "NFC"}] * 50_000)
    edit_json(tiny_folder / "tokenizer.json", **many({}))
    began = time.process_time()
    for message in refused(tiny_folder, capsys):
        assert "normalizer has 100002 values; at most 1000 are allowed" in message
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(("limit", "found"), [("VOCABULARY", len(TOKENS)), ("ADDED_TOKENS", 5)])
def test_no_vocabulary_is_too_large(tiny_folder, limit, found, monkeypatch, capsys):
    """The numbers of tokens have limits as well."""
    monkeypatch.setattr(tokenizer_file, limit, found)
    assert main(["inspect", str(tiny_folder)]) == 0
    capsys.readouterr()
    monkeypatch.setattr(tokenizer_file, limit, found - 1)
    for message in refused(tiny_folder, capsys):
        assert f"has {found} entries; at most {found - 1} are allowed" in message


def only_vocabulary(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").touch()


#: What brings a file into the folder.
POINTERS: dict[str, Callable[[Path], object]] = {
    "config.json": lambda _: None,
    "1_Pooling/config.json": lambda _: None,
    "model.safetensors": lambda _: None,
    "tokenizer.json": lambda _: None,
    "vocab.txt": only_vocabulary,
    "model.onnx": use_export,
    "model.onnx_data": lambda folder: use_export(folder, external=True),
    "adapter_model.safetensors": put_adapter,
}


@pytest.mark.parametrize("file", POINTERS)
def test_a_clone_without_its_large_files(tiny_folder, file, capsys):
    """A file that is a pointer of Git LFS is named as that, with the command that gets it."""
    POINTERS[file](tiny_folder)
    (tiny_folder / file).write_text(
        f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 90868376\n"
    )
    error, _ = refused(tiny_folder, capsys)
    assert f"{file} is a pointer of Git LFS" in error
    assert "`git lfs pull`" in error


@pytest.mark.parametrize(
    "file", ["config.json", "modules.json", "tokenizer.json", "model.safetensors"]
)
def test_a_file_of_another_user(tiny_folder, file, capsys, monkeypatch):
    """The error names the file that may not be read, and says why."""
    opened = Path.open

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path == tiny_folder / file:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return opened(path, *arguments, **options)

    monkeypatch.setattr(Path, "open", refuse)
    error, _ = refused(tiny_folder, capsys)
    assert error.endswith(f"{file} cannot be read: Permission denied.")


@pytest.mark.parametrize("file", ["config.json", "modules.json", "tokenizer.json"])
def test_no_file_is_too_large(tiny_folder, file, capsys):
    """A file is not even read if it has more bytes than any model's."""
    os.truncate(tiny_folder / file, 257 << 20)
    for message in refused(tiny_folder, capsys):
        assert re.search(rf"{file} has 269484032 bytes; at most \d+ are allowed", message)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_no_integer_asks_for_memory(tmp_path, family):
    """A table of positions or a list of layers is not made before the weights are looked at."""
    folder = write_family(tmp_path / family, family)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    read_model_folder(folder).check()
    for key in [key for key, value in config.items() if type(value) is int]:
        for number in (10**12, INTEGER_OF.get(key, INTEGER)):
            path.write_text(json.dumps({**config, key: number}))
            tracemalloc.start()
            with suppress(CompilerError):
                read_model_folder(folder).check()
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 500e6, (key, number)
