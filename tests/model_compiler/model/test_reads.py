"""Each file that says what a model is, is read once, however many parts of the compiler ask."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

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

#: Compiles or inspects a folder, and prints how often each file in it was opened. The catalog, for
#: which files are hashed, is empty.
PROGRAM = """
import collections, json, os, sys

from model_compiler.command import main
from model_compiler.source import catalog

folder, *arguments = sys.argv[1:]
opened = collections.Counter()

def count(event, values):
    path = str(values[0]) if event == "open" else ""
    if path.startswith(folder + os.sep) and os.path.isfile(path):
        opened[os.path.relpath(path, folder)] += 1

catalog.CATALOG = ()
sys.addaudithook(count)
status = main([arguments[0], folder, *arguments[1:]])
print(json.dumps([status, opened]))
"""


def opened(folder: Path, *arguments: str) -> dict[str, int]:
    """Return how often a command opened each file, but those with weights."""
    command = [sys.executable, "-c", PROGRAM, str(folder), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    status, counts = json.loads(done.stdout.splitlines()[-1])
    assert status == 0, done.stderr
    return {name: count for name, count in counts.items() if not name.endswith(".safetensors")}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_compile_reads_each_file_once(tmp_path, kind):
    """No file of a folder is opened twice, and none is left out."""
    folder = WRITERS[kind](tmp_path / "model")
    counts = opened(folder, "compile", "--output", str(tmp_path / "out"), "--unmeasured", "--quiet")
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*.json")}
    assert {name: count for name, count in counts.items() if count > 1} == {}
    assert {"config.json", "tokenizer.json"} & names <= counts.keys()
    assert ("modules.json" in names) == ("modules.json" in counts)


def test_an_inspection_reads_each_file_once(tmp_path):
    """`inspect` asks the same questions of a folder, and opens each file once too."""
    counts = opened(write_with_dense(tmp_path / "model"), "inspect")
    assert set(counts.values()) == {1}
    assert "modules.json" in counts


def test_the_modules_of_a_router_are_read_once(tmp_path):
    """Each route has modules of its own, in another folder."""
    folder = write_router(tmp_path / "pair")
    counts = opened(folder, "compile", "--output", str(tmp_path / "out"), "--unmeasured", "--quiet")
    assert (counts["modules.json"], counts["router_config.json"]) == (1, 1)
