"""A small Qwen3-Embedding against sentence-transformers, in full precision and in int8."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.engine import Engine
from model_compiler.artifact.manifest import Choices
from model_compiler.graph.architectures import qwen3
from model_compiler.graph.builder import Precision
from tests.model_compiler.conftest import Compile, Edit
from tests.model_compiler.goldens.qwen3_model import POSITIONS, TEXTS, VARIANTS, write_qwen3
from tests.model_compiler.graph.architectures.conftest import embed_alone, opened

GOLDEN = np.load(Path(__file__).parents[2] / "goldens" / "qwen3.npz")

Floats = npt.NDArray[np.float32]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the plain model, which the test may change."""
    return write_qwen3(tmp_path / "model")


@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_are_those_of_sentence_transformers(
    tmp_path: Path, compile_tiny: Compile, variant: str
) -> None:
    """Each trait gives the reference's vectors, from two tokens to more than the limit."""
    artifact = compile_tiny(write_qwen3(tmp_path / "model", **VARIANTS[variant]))
    vectors = embed_alone(artifact, list(TEXTS.values()))
    np.testing.assert_allclose(vectors, GOLDEN[variant], atol=1e-6, rtol=0)


def test_a_prompt_is_in_front_of_the_text(folder: Path, compile_tiny: Compile) -> None:
    """A query's instruction counts toward the limit, and the last token is still the appended."""
    artifact = compile_tiny(folder)
    vectors = embed_alone(artifact, list(TEXTS.values()), prompt="query")
    np.testing.assert_allclose(vectors, GOLDEN["query"], atol=1e-6, rtol=0)
    assert artifact.manifest.default_prompt == "document"


@pytest.mark.parametrize("variant", VARIANTS)
def test_int8_is_close(tmp_path: Path, compile_tiny: Compile, variant: str) -> None:
    """Rows of 48 values average out fewer errors than the 1,024 of the published model."""
    folder = write_qwen3(tmp_path / "model", **VARIANTS[variant])
    vectors = embed_alone(compile_tiny(folder, Precision.INT8), list(TEXTS.values()))
    assert (vectors * GOLDEN[variant]).sum(axis=1).min() > 0.998


@pytest.mark.parametrize("variant", ["last token", "mean"])
@pytest.mark.parametrize("precision", Precision)
def test_a_text_is_the_same_in_any_company(
    tmp_path: Path, compile_tiny: Compile, precision: Precision, variant: str
) -> None:
    """Texts of all lengths have bit-identical vectors alone and in a batch."""
    artifact = compile_tiny(write_qwen3(tmp_path / "model", **VARIANTS[variant]), precision)
    texts = [text[start:] for text in TEXTS.values() for start in (0, 1, 2) if text[start:]]
    together = Engine.load(artifact, truncate="right").embed(texts).vectors
    np.testing.assert_array_equal(together, embed_alone(artifact, texts))


def test_a_long_text_keeps_its_last_token(folder: Path, compile_tiny: Compile) -> None:
    """A text over the limit is cut before the appended token, from which its vector is taken."""
    engine = Engine.load(compile_tiny(folder), truncate="right")
    cut, over = engine.embed([TEXTS[321][:319], TEXTS[321]]).vectors
    np.testing.assert_array_equal(cut, over)
    assert engine.embed([TEXTS[321]]).tokens == [POSITIONS]


def test_a_pooling_without_the_prompt(folder: Path, compile_tiny: Compile, edit_json: Edit) -> None:
    """`include_prompt` may be false: the last token is never part of the prompt."""
    edit_json(folder / "1_Pooling" / "config.json", include_prompt=False)
    vectors = embed_alone(compile_tiny(folder), list(TEXTS.values()), prompt="query")
    np.testing.assert_allclose(vectors, GOLDEN["query"], atol=1e-6, rtol=0)


def test_the_start_of_a_vector_is_a_vector(folder: Path, compile_tiny: Compile) -> None:
    """For a model that was trained for it, fewer dimensions are the first ones, of length 1."""
    engine = Engine.load(compile_tiny(folder, choices=Choices(dimensions=(32,))))
    whole = engine.embed(["hello"]).vectors[0]
    short = engine.embed(["hello"], dimensions=32).vectors[0]
    np.testing.assert_allclose(short, whole[:32] / np.linalg.norm(whole[:32]), atol=1e-6)


def test_both_generations_of_configurations_are_one_model(
    folder: Path, tmp_path: Path, compile_tiny: Compile
) -> None:
    """Files with `rope_theta` and with `rope_parameters` compile to the same bytes."""
    older = compile_tiny(folder)
    newer = compile_tiny(write_qwen3(tmp_path / "newer", newer=True))
    assert Path(newer.graph_path).read_bytes() == Path(older.graph_path).read_bytes()


def test_a_checkpoint_of_the_language_model(folder: Path, compile_tiny: Compile) -> None:
    """A prefix `model.` and the output head change no vector."""
    path = folder / "model.safetensors"
    tensors = {f"model.{name}": tensor for name, tensor in load_file(path).items()}
    tensors["lm_head.weight"] = np.zeros((259, 48), np.float32)
    save_file(tensors, path)
    vectors = embed_alone(compile_tiny(folder), list(TEXTS.values()))
    np.testing.assert_allclose(vectors, GOLDEN["last token"], atol=1e-6, rtol=0)


def test_every_value_is_on_the_path_to_the_vector(folder: Path, compile_tiny: Compile) -> None:
    """ONNX Runtime keeps a value until its last reader has run, and runs dead ends last."""
    graph = onnx.load(compile_tiny(folder).graph_path, load_external_data=False).graph
    needed = {output.name for output in graph.output}
    for node in reversed(graph.node):
        assert needed >= set(node.output), node.name
        needed |= set(node.input)


def test_the_width_of_heads_has_transformers_default(folder: Path, edit_json: Edit) -> None:
    """Without `head_dim` it is 128, whatever the hidden size and the number of heads are."""
    path = folder / "config.json"
    edit_json(path, head_dim=None)
    assert qwen3.parse(opened(path)).head_size == 128
