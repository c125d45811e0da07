"""Changes of the files of model folders, for the script that asks transformers and for the tests.

A change of a file is an object from dotted paths to values; `DROPPED` removes a key. A number in a
path is an item of a list, and `+` in front of a path appends to it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.model_compiler.goldens.files import read_json, write_json
from tests.model_compiler.goldens.tiny_models import write_model

DROPPED = "(dropped)"


def write_with_dense(folder: Path) -> Path:
    """Write a BERT with all kinds of modules, and return its folder."""
    return write_model(folder, dense=[(16, True, "activation.Tanh")])


def write_tokenizer(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write the files of a tokenizer, by their names, and return the folder."""
    for name, value in files.items():
        write_json(folder / name, value)
    return folder


def change_file(path: Path, change: Mapping[str, Any]) -> None:
    """Change the JSON of a file, which need not exist."""
    value = read_json(path) if path.exists() else {}
    for dotted, replacement in change.items():
        *parents, leaf = dotted.removeprefix("+").split(".")
        inner = value
        for key in parents:
            inner = inner[int(key)] if isinstance(inner, list) else inner[key]
        if replacement == DROPPED:
            inner.pop(leaf, None)
        elif dotted.startswith("+"):
            inner[leaf] = [*inner[leaf], replacement]
        else:
            inner[int(leaf) if isinstance(inner, list) else leaf] = replacement
    write_json(path, value)
