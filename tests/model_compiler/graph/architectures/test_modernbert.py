"""A small ModernBERT against sentence-transformers, in full precision and in int8."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.engine import Engine
from model_compiler.graph.architectures import modernbert
from model_compiler.graph.builder import Precision
from tests.model_compiler.conftest import Compile, Edit
from tests.model_compiler.goldens.modernbert_model import (
    LENGTHS,
    POSITIONS,
    TEXTS,
    VARIANTS,
    write_modernbert,
)
from tests.model_compiler.graph.architectures.conftest import embed_alone, opened

GOLDEN = np.load(Path(__file__).parents[2] / "goldens" / "modernbert.npz")

Floats = npt.NDArray[np.float32]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the plain model, which the test may change."""
    return write_modernbert(tmp_path / "model")


@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_are_those_of_sentence_transformers(
    tmp_path: Path, compile_tiny: Compile, variant: str
) -> None:
    """Each trait gives the reference's vectors on both sides of the window, blocks and limit."""
    artifact = compile_tiny(write_modernbert(tmp_path / "model", **VARIANTS[variant]))
    vectors = embed_alone(artifact, list(TEXTS.values()))
    np.testing.assert_allclose(vectors, GOLDEN[variant], atol=1e-6, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_int8_is_close(tmp_path: Path, compile_tiny: Compile, variant: str) -> None:
    """Rows of 48 values average out fewer errors than the 768 of the published models."""
    folder = write_modernbert(tmp_path / "model", **VARIANTS[variant])
    vectors = embed_alone(compile_tiny(folder, Precision.INT8), list(TEXTS.values()))
    assert (vectors * GOLDEN[variant]).sum(axis=1).min() > 0.998


@pytest.mark.parametrize("variant", ["mean", "cls", "biases"])
@pytest.mark.parametrize("precision", Precision)
def test_a_text_is_the_same_in_any_company(
    tmp_path: Path, compile_tiny: Compile, precision: Precision, variant: str
) -> None:
    """Texts of all lengths have bit-identical vectors alone and in a batch."""
    artifact = compile_tiny(write_modernbert(tmp_path / "model", **VARIANTS[variant]), precision)
    texts = [text[start:] for text in TEXTS.values() for start in (0, 1, 2) if text[start:]]
    together = Engine.load(artifact, truncate="right").embed(texts).vectors
    np.testing.assert_array_equal(together, embed_alone(artifact, texts))


def test_texts_are_cut_at_the_limit(folder: Path, compile_tiny: Compile) -> None:
    """The limit is the number of positions, and the goldens are on both sides of it."""
    engine = Engine.load(compile_tiny(folder), truncate="right")
    texts = [TEXTS[length] for length in (319, 320, 321)]
    assert engine.embed(texts).tokens == [319, POSITIONS, POSITIONS]
    assert max(LENGTHS) > POSITIONS


def test_both_generations_of_configurations_are_one_model(
    folder: Path, tmp_path: Path, compile_tiny: Compile
) -> None:
    """Files with `global_rope_theta` and with `rope_parameters` compile to the same bytes."""
    older = compile_tiny(folder)
    newer = compile_tiny(write_modernbert(tmp_path / "newer", newer=True))
    assert Path(newer.graph_path).read_bytes() == Path(older.graph_path).read_bytes()


def test_a_checkpoint_of_the_language_model(folder: Path, compile_tiny: Compile) -> None:
    """A prefix `model.` and the head of the masked language model change no vector."""
    path = folder / "model.safetensors"
    tensors = {f"model.{name}": tensor for name, tensor in load_file(path).items()}
    tensors["head.dense.weight"] = np.zeros((48, 48), np.float32)
    tensors["decoder.bias"] = np.zeros(261, np.float32)
    save_file(tensors, path)
    vectors = embed_alone(compile_tiny(folder), list(TEXTS.values()))
    np.testing.assert_allclose(vectors, GOLDEN["mean"], atol=1e-6, rtol=0)


def test_the_window_is_read_as_transformers_reads_it(folder: Path) -> None:
    """The stored width covers both sides: with 16, a token attends to 8 on each side."""
    parsed = modernbert.parse(opened(folder / "config.json"))
    assert parsed.reach == 8
    assert parsed.sliding == (False, True, True, False, True, True, False)


def test_a_base_that_is_missing_is_taken_from_the_older_key(folder: Path, edit_json: Edit) -> None:
    """As in transformers: `rope_parameters`, then the older key, then the family's default."""
    path = folder / "config.json"
    edit_json(path, rope_parameters={"full_attention": {"rope_theta": 5}}, local_rope_theta=7)
    parsed = modernbert.parse(opened(path))
    assert (parsed.full_rope_base, parsed.sliding_rope_base) == (5, 7)
    edit_json(path, lambda config: {key: config[key] for key in config if "theta" not in key})
    assert modernbert.parse(opened(path)).sliding_rope_base == 10_000
