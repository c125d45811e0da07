"""Changes of the files of model folders, for the script that asks transformers and for the tests.

A change of a file is an object from dotted paths to values; `DROPPED` removes a key. A number in a
path is an item of a list, and `+` in front of a path appends to it.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.model_compiler.goldens.tiny_models import write_model

DROPPED = "(dropped)"


def write_with_dense(folder: Path) -> Path:
    """Write a BERT with all kinds of modules, and return its folder."""
    return write_model(folder, dense=[(16, True, "activation.Tanh")])


def write_tokenizer(folder: Path, files: Mapping[str, Any]) -> Path:
    """Write the files of a tokenizer, by their names, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")
    return folder


def change_file(path: Path, change: Mapping[str, Any]) -> None:
    """Change the JSON of a file, which need not exist."""
    value = json.loads(path.read_text("utf-8")) if path.exists() else {}
    for dotted, new in change.items():
        *parents, last = dotted.removeprefix("+").split(".")
        inner = value
        for key in parents:
            inner = inner[int(key)] if isinstance(inner, list) else inner[key]
        if new == DROPPED:
            inner.pop(last, None)
        elif dotted.startswith("+"):
            inner[last] = [*inner[last], new]
        else:
            inner[int(last) if isinstance(inner, list) else last] = new
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
