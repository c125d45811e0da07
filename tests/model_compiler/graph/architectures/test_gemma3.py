"""A small EmbeddingGemma against transformers, in full precision and in int8."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.artifact import Artifact
from embedder.core.session import Session
from model_compiler.graph.architectures import gemma3
from model_compiler.graph.builder import Precision
from tests.model_compiler.conftest import Compile, Edit, padded
from tests.model_compiler.goldens.gemma3_model import LENGTHS, SHAPE, sequences, write_gemma3
from tests.model_compiler.graph.architectures.conftest import opened

GOLDENS = Path(__file__).resolve().parents[2] / "goldens"
IDS = sequences()

Floats = npt.NDArray[np.float32]


@pytest.fixture(scope="module")
def kept_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the model's folder, which tests must not change."""
    return write_gemma3(tmp_path_factory.mktemp("gemma3") / "model")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a copy of the model's folder, which the test may change."""
    return write_gemma3(tmp_path / "model")


@pytest.fixture(scope="module")
def golden() -> dict[int, Floats]:
    """Return the vector of each length's ids, from transformers."""
    with np.load(GOLDENS / "gemma3.npz") as stored:
        return {length: stored[str(length)] for length in LENGTHS}


def embed(artifact: Artifact, batch: Sequence[npt.NDArray[np.int64]]) -> Floats:
    """Run sequences of ids together, padded to the longest."""
    return Session(artifact).run(*padded([list(map(int, ids)) for ids in batch]))


def cosines(left: Floats, right: Floats) -> npt.NDArray[Any]:
    """Return the cosine of each pair of rows, all of length 1."""
    return (left * right).sum(axis=1)


def test_each_length_is_transformers_own(
    kept_folder: Path, golden: dict[int, Floats], compile_tiny: Compile
) -> None:
    """The vectors match below, at and above the window, and for one block and several."""
    artifact = compile_tiny(kept_folder)
    vectors = np.concatenate([embed(artifact, [IDS[length]]) for length in LENGTHS])
    np.testing.assert_allclose(vectors, np.stack([golden[length] for length in LENGTHS]), atol=1e-5)


@pytest.mark.parametrize("lengths", [(33, 1, 10), (144, 7, 2), (201, 320, 9, 143)])
def test_padding_changes_nothing(
    kept_folder: Path, golden: dict[int, Floats], compile_tiny: Compile, lengths: tuple[int, ...]
) -> None:
    """Texts of many lengths in one batch have the same vectors, with one block or several."""
    vectors = embed(compile_tiny(kept_folder), [IDS[length] for length in lengths])
    np.testing.assert_allclose(vectors, np.stack([golden[length] for length in lengths]), atol=1e-5)


def test_int8_is_close(kept_folder: Path, golden: dict[int, Floats], compile_tiny: Compile) -> None:
    """Rows of 48 values average out fewer errors than the 768 of the real model."""
    artifact = compile_tiny(kept_folder, Precision.INT8)
    vectors = np.concatenate([embed(artifact, [IDS[length]]) for length in LENGTHS])
    found = cosines(vectors, np.stack([golden[length] for length in LENGTHS]))
    assert found.mean() > 0.998
    assert found.min() > 0.995


def test_a_text_is_the_same_in_any_company(kept_folder: Path, compile_tiny: Compile) -> None:
    """Texts with the same padding have bit-identical vectors alone and in a batch."""
    artifact = compile_tiny(kept_folder, Precision.INT8)
    source = np.random.RandomState(5)
    batch = [source.randint(10, SHAPE.vocabulary, 40) for _ in range(9)]
    alone = np.concatenate([embed(artifact, [ids]) for ids in batch])
    np.testing.assert_array_equal(embed(artifact, batch), alone)


@pytest.mark.parametrize("gain", [0.0, -0.999])
def test_int8_bears_outlier_channels(folder: Path, compile_tiny: Compile, gain: float) -> None:
    """Activations of 1e5 in a few channels, amplified or suppressed by the norms, cost little."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    channels = [3, 17, 40]
    table = tensors["embed_tokens.weight"]
    table[:, channels] = np.where(table[:, channels] > 0, 1e5, -1e5) / SHAPE.hidden**0.5
    for name, tensor in tensors.items():
        if name.endswith(("input_layernorm.weight", "pre_feedforward_layernorm.weight")):
            tensor[channels] = gain
    save_file(tensors, path)
    batch = [IDS[length] for length in (7, 33, 10)]
    exact = embed(compile_tiny(folder), batch)
    assert cosines(embed(compile_tiny(folder, Precision.INT8), batch), exact).min() > 0.99


def test_a_row_of_zeros_stays_finite(folder: Path, compile_tiny: Compile) -> None:
    """A token whose embedding is all zeros gives finite vectors."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    tensors["embed_tokens.weight"][5] = 0
    save_file(tensors, path)
    ids = [np.array([5, 20, 5, 21, 5])]
    exact = embed(compile_tiny(folder), ids)
    assert cosines(embed(compile_tiny(folder, Precision.INT8), ids), exact).min() > 0.99


def test_both_generations_of_configurations_are_one_model(
    folder: Path, compile_tiny: Compile
) -> None:
    """Files with `rope_theta` and with `rope_parameters` compile to the same bytes."""
    older = compile_tiny(folder)
    newer = (GOLDENS / "gemma3_config.json").read_text("utf-8")
    assert "rope_parameters" in json.loads(newer)
    (folder / "config.json").write_text(newer, encoding="utf-8")
    again = compile_tiny(folder)
    assert Path(again.graph_path).read_bytes() == Path(older.graph_path).read_bytes()


def test_layers_follow_the_pattern_where_none_are_listed(folder: Path, edit_json: Edit) -> None:
    """Every n-th layer attends fully, and the others slide."""
    path = folder / "config.json"
    edit_json(path, lambda config: {**config, "layer_types": None, "_sliding_window_pattern": 3})
    sliding = gemma3.parse(opened(path)).sliding
    assert sliding == (True, True, False, True, True, False)


def test_the_window_is_read_as_transformers_reads_it(kept_folder: Path) -> None:
    """The stored width covers both sides: with 16, a token attends to 8 on each side."""
    assert gemma3.parse(opened(kept_folder / "config.json")).reach == 8
