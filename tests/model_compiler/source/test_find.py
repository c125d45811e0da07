"""Finding a model: the files that are hashed to recognize it."""

import os
from collections import Counter
from pathlib import Path

from model_compiler.files.paths import file_sha256
from model_compiler.source import find
from model_compiler.source.catalog import CATALOG
from model_compiler.source.find import find_source


def test_a_folders_files_are_hashed_once(tiny_folder, monkeypatch):
    """A file is hashed once, however many models of the catalog the folder is compared with."""
    hashed: Counter[str] = Counter()

    def counted(path: Path) -> str:
        hashed[path.name] += 1
        return file_sha256(path)

    monkeypatch.setattr(find, "file_sha256", counted)
    assert sum("model.safetensors" in entry.sha256 for entry in CATALOG) > 1
    assert find_source(str(tiny_folder)).entry is None
    assert max(hashed.values()) == 1


def test_weights_that_never_end(tiny_folder):
    """A pipe is not a model's file and is not read."""
    (tiny_folder / "model.safetensors").unlink()
    os.mkfifo(tiny_folder / "model.safetensors")
    assert find_source(str(tiny_folder)).entry is None
