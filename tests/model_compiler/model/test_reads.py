"""Each file that says what a model is, is read once, however many parts of the compiler ask."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.model_compiler.goldens.reranker_models import VARIANTS, write_reranker
from tests.model_compiler.goldens.setting_changes import write_with_dense
from tests.model_compiler.goldens.sparse_models import write_lexical, write_sparse
from tests.model_compiler.goldens.static_models import write_model2vec, write_sentence_transformers
from tests.model_compiler.goldens.tiny_models import write_router

WRITERS: dict[str, Callable[[Path], Path]] = {
    "dense": write_with_dense,
    "cross-encoder": write_reranker,
    "cross-encoder with modules": lambda folder: write_reranker(
        folder, **VARIANTS["modernbert, modules"]
    ),
    "language model": lambda folder: write_reranker(
        folder, **VARIANTS["qwen3, saved by version 6"]
    ),
    "language model without modules": lambda folder: write_reranker(folder, **VARIANTS["qwen3"]),
    "sparse encoder": write_sparse,
    "sparse head": write_lexical,
    "static": write_sentence_transformers,
    "model2vec": write_model2vec,
}

#: Compiles or inspects folders one after the other, and prints how often each file in them was
#: opened. The catalog, for which files are hashed, is empty.
PROGRAM = """
import collections, json, os, sys

from model_compiler.command import main
from model_compiler.source import catalog

opened = collections.defaultdict(collections.Counter)

def count(event, values):
    path = str(values[0]) if event == "open" else ""
    for folder in opened:
        if path.startswith(folder + os.sep) and os.path.isfile(path):
            opened[folder][os.path.relpath(path, folder)] += 1

catalog.CATALOG = ()
sys.addaudithook(count)
for action, folder, *arguments in json.loads(sys.argv[1]):
    opened[folder]
    assert main([action, folder, *arguments]) == 0
print(json.dumps(opened))
"""


class Folders(NamedTuple):
    """Models that one process has read, and how often each file of theirs but weights."""

    root: Path
    counts: dict[str, dict[str, int]]


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Folders:
    root = tmp_path_factory.mktemp("reads")
    writers = {**WRITERS, "router": write_router}
    actions: list[tuple[str, ...]] = [
        (
            "compile",
            str(write(root / name)),
            *("--output", str(root / f"{name} compiled"), "--unmeasured", "--quiet"),
        )
        for name, write in writers.items()
    ]
    actions.append(("inspect", str(write_with_dense(root / "inspected"))))
    command = [sys.executable, "-c", PROGRAM, json.dumps(actions)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    counts = {
        Path(folder).name: {
            name: count for name, count in files.items() if not name.endswith(".safetensors")
        }
        for folder, files in json.loads(done.stdout.splitlines()[-1]).items()
    }
    return Folders(root, counts)


@pytest.mark.parametrize("kind", WRITERS)
def test_a_compile_reads_each_file_once(folders, kind):
    """No file of a folder is opened twice, and none is left out."""
    counts, folder = folders.counts[kind], folders.root / kind
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*.json")}
    assert {name: count for name, count in counts.items() if count > 1} == {}
    assert {"config.json", "tokenizer.json"} & names <= counts.keys()
    assert ("modules.json" in names) == ("modules.json" in counts)


def test_an_inspection_reads_each_file_once(folders):
    """`inspect` asks the same questions of a folder, and opens each file once too."""
    counts = folders.counts["inspected"]
    assert set(counts.values()) == {1}
    assert "modules.json" in counts


def test_the_modules_of_a_router_are_read_once(folders):
    """Each route has modules of its own, in another folder."""
    counts = folders.counts["router"]
    assert (counts["modules.json"], counts["router_config.json"]) == (1, 1)
