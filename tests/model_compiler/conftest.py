"""Small random models to compile, and helpers to run the artifacts."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.artifact import Artifact, load_artifact
from embedder.core.engine import Engine
from embedder.core.session import Session
from model_compiler.compile import CompileOptions, compile_model
from model_compiler.files.config import ConfigFile
from model_compiler.graph.builder import Precision
from model_compiler.source.find import find_source
from model_compiler.tokenizer import tables as tokenizer_tables
from tests.model_compiler.goldens.tiny_models import write_model
from tests.model_compiler.local_hub import Hub, serve

Compile = Callable[..., Artifact]
Floats = npt.NDArray[np.float32]
#: The reference's vectors by family and variant.
GOLDEN = np.load(Path(__file__).parent / "goldens" / "families.npz")


@pytest.fixture(autouse=True, scope="session")
def pure_functions_called_once() -> Iterator[None]:
    """Build the tables of each tokenizer once for all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_tables, "build", functools.cache(tokenizer_tables.build))
        yield


@pytest.fixture
def tiny_folder(tmp_path: Path) -> Path:
    """Return the folder of a small random BERT, which the test may change."""
    return write_model(tmp_path / "tiny")


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Serve a hub on this machine, with a separate cache for its client."""
    with serve() as hub:
        monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        yield hub


@pytest.fixture
def tiny(served: Hub, tmp_path: Path) -> Path:
    """Put a model on the hub, as acme/tiny."""
    folder = write_model(tmp_path / "repository")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    (folder / "README.md").write_text("A model.")
    served.repositories["acme/tiny"] = folder
    return folder


@pytest.fixture
def compile_tiny(tmp_path: Path) -> Compile:
    """Compile a folder without measuring it: random weights have no meaning to be faithful to."""

    def compile_(folder: Path, precision: Precision = Precision.FP32, **options: Any) -> Artifact:
        output = tmp_path / f"{folder.name}-{precision}-{len(list(tmp_path.iterdir()))}"
        compile_folder(folder, output, precision=precision, thresholds=None, **options)
        return load_artifact(output)

    return compile_


@contextmanager
def changing(folder: Path) -> Iterator[dict[str, npt.NDArray[Any]]]:
    """Yield the tensors of a folder, and save them as they are then."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    yield tensors
    save_file(tensors, path)


def compile_folder(folder: Path, output: Path, **options: Any) -> dict[str, Any]:
    """Compile a folder without showing the progress, and return the manifest."""
    return compile_model(
        find_source(str(folder)), output, CompileOptions(progress=False, **options)
    )


def embed(artifact: Artifact, inputs: Sequence[Any]) -> Floats:
    """Embed texts, or sequences of ids, together."""
    if isinstance(inputs[0], str):
        return Engine.load(artifact, truncate="right").embed(inputs).vectors
    return Session(artifact).run(*padded([list(map(int, ids)) for ids in inputs]))


def embed_each(artifact: Artifact, inputs: Sequence[Any], *, prompt: str | None = None) -> Floats:
    """Embed texts, or sequences of ids, one by one."""
    if isinstance(inputs[0], str):
        engine = Engine.load(artifact, truncate="right")
        return np.concatenate([engine.embed([text], prompt=prompt).vectors for text in inputs])
    session = Session(artifact)
    return np.concatenate([session.run(ids[None], np.ones_like(ids)[None]) for ids in inputs])


def opened(path: Path) -> ConfigFile:
    """Open a configuration as the compiler does, which reads the model's type first."""
    config = ConfigFile(path)
    config.string("model_type")
    return config


def padded(
    sequences: Sequence[Sequence[int]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return ids and mask [batch, longest] of sequences of token ids."""
    longest = max(map(len, sequences))
    ids = np.zeros((len(sequences), longest), np.int64)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return ids, mask


def merged(value: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    """Return an object with some keys changed."""
    return {**value, **changes}
