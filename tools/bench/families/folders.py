"""The folders of a shape: the replica, its artifact and its plain export, each written once."""

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from model_compiler.artifact.writer import new_folder
from model_compiler.compile import Options, compile_model
from model_compiler.source.find import find_source
from tests.fixtures.replica import write_replica
from tools.bench.families.shapes import Shape
from tools.bench.families.vocabularies import tokenizer_json

__all__ = ["Folders", "prepare", "prepare_artifact"]

_SCRIPT = Path(__file__).with_name("torch_replica.py")
#: The classes of the modules, in the order of `modules.json`.
_MODULES = ("Transformer", "Pooling", "Normalize")


@dataclass(frozen=True, slots=True)
class Folders:
    """The folder of each form of a shape.

    Attributes:
        source: The sentence-transformers folder.
        artifact: The int8 artifact of this project's compiler.
        export: The plain fp32 export of torch with the tokenizer; `source` for a static model.
    """

    source: Path
    artifact: Path
    export: Path


def prepare(cache: Path, name: str, shape: Shape, peers_python: str) -> Folders:
    """Write the missing folders of a shape.

    Args:
        cache: The folder that contains them.
        name: The shape's name.
        shape: The shape.
        peers_python: An interpreter that has torch and transformers.
    """
    source, artifact = prepare_artifact(cache, name, shape, peers_python)
    if not shape.config:
        return Folders(source, artifact, source)

    def export(folder: Path) -> None:
        _torch(peers_python, source, str(folder))
        shutil.copy(source / "tokenizer.json", folder)

    return Folders(source, artifact, _once(cache / f"{name}-export", "model.onnx", export))


def prepare_artifact(cache: Path, name: str, shape: Shape, peers_python: str) -> tuple[Path, Path]:
    """Write a shape's replica if it is missing, and compile it; return both folders."""

    def replica(folder: Path) -> None:
        _describe(folder, shape)
        if shape.config:
            _torch(peers_python, folder, "weights")
        else:
            _write_table(folder, shape)

    if shape.tokenizer == "Gemma":
        source = write_replica(cache / name)
    else:
        source = _once(cache / name, "modules.json", replica)
    artifact = cache / f"{name}-artifact"
    # Compiled each time, because it changes with the code. Random weights have no meaning to
    # compare.
    compile_model(find_source(str(source)), artifact, Options(thresholds=None, progress=False))
    return source, artifact


def _once(folder: Path, marker: str, write: Callable[[Path], None]) -> Path:
    if not folder.exists():
        with new_folder(folder, marker=marker) as unfinished:
            write(unfinished)
    return folder


def _torch(python: str, *arguments: object) -> None:
    command = [python, str(_SCRIPT), *map(str, arguments)]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - the user's own interpreter
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"{python} could not write the replica:\n{error.stderr}") from error


def _describe(folder: Path, shape: Shape) -> None:
    """Write all files but the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_bytes(tokenizer_json(shape))
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})
    kinds = _MODULES if shape.config else ("StaticEmbedding",)
    paths = ("", *(f"{place}_{kind}" for place, kind in enumerate(kinds[1:], start=1)))
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": _class(kind)}
        for place, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    _write(folder / "modules.json", modules)
    if shape.config:
        _write(folder / "config.json", {**shape.config, "vocab_size": shape.vocabulary})
        _write(folder / "sentence_bert_config.json", {"max_seq_length": shape.max_tokens})
        (folder / "1_Pooling").mkdir()
        pooling = {"embedding_dimension": shape.dimensions, "pooling_mode": shape.pooling}
        _write(folder / "1_Pooling" / "config.json", pooling)
        (folder / "2_Normalize").mkdir()


def _class(kind: str) -> str:
    return f"sentence_transformers.models.{kind}"


def _write_table(folder: Path, shape: Shape) -> None:
    """Write the weights of a static model: one row per token."""
    generator = np.random.RandomState(0)
    rows = generator.standard_normal((shape.vocabulary, shape.dimensions)).astype(np.float32)
    save_file({"embedding.weight": rows}, folder / "model.safetensors")


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
