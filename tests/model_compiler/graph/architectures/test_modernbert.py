"""A small ModernBERT against sentence-transformers, in full precision and in int8."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.engine import Engine
from model_compiler.errors import CompilerError, SourceError, UnsupportedModelError
from model_compiler.graph.architectures import modernbert
from model_compiler.graph.builder import Precision
from tests.model_compiler.conftest import Compile, Edit
from tests.model_compiler.goldens.modernbert_model import (
    LAYERS,
    LENGTHS,
    NEWER,
    POSITIONS,
    TEXTS,
    VARIANTS,
    write_modernbert,
)
from tests.model_compiler.graph.architectures.conftest import Reason, embed_alone, opened

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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_activation": "mish"}, "hidden_activation 'mish' is not a supported activation"),
        ({"local_rope_theta": None}, "local_rope_theta is null"),
        ({"rope_scaling": {"factor": 8.0}}, "rope_scaling is"),
        ({"layer_types": ["chunked_attention"] * LAYERS}, "layer_types has 'chunked_attention'"),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 8.0}}},
            "rope_parameters.full_attention has factor = 8.0",
        ),
        ({"is_decoder": True}, "is_decoder is true; the compiler can express false"),
        ({"layer_scale": 0.5}, "settings that the compiler does not know: layer_scale = 0.5"),
    ],
)
def test_what_cannot_be_expressed_is_refused_by_name(
    reason: Reason, changes: dict[str, Any], message: str
) -> None:
    """A setting that the graph cannot express is an error that names it."""
    assert message in reason(UnsupportedModelError, changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_attention_heads": 5}, "a multiple of twice num_attention_heads"),
        ({**NEWER, "layer_types": ["full_attention"]}, "a list of num_hidden_layers = 7 names"),
        ({"global_rope_theta": -1}, "global_rope_theta must be a positive number; found -1"),
        ({"rope_parameters": {"full_attention": 3}}, "full_attention must be an object; found 3"),
        ({"norm_eps": None}, "norm_eps is missing"),
        ({"norm_bias": "no"}, 'norm_bias must be true or false; found "no"'),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers must be an integer of at least 1 and at"),
        ({"max_position_embeddings": 10**12}, "at least 1 and at most 1048576"),
    ],
)
def test_wrong_values_are_named(reason: Reason, changes: dict[str, Any], message: str) -> None:
    """The error names the key, the allowed values and the value found."""
    assert message in reason(SourceError, changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"intermediate_size": 65}, r"mlp.Wi.weight has shape \[128, 48\].*\[130, 48\]"),
        ({"norm_bias": True}, r"no tensor 'embeddings.norm.bias'"),
        ({"num_hidden_layers": 6}, "does not use: layers.6"),
    ],
)
def test_weights_that_do_not_fit_the_configuration(
    folder: Path, edit_json: Edit, compile_tiny: Compile, changes: dict[str, Any], message: str
) -> None:
    """A tensor of another shape, a missing and an unused one are named."""
    edit_json(folder / "config.json", **changes)
    with pytest.raises(CompilerError, match=message):
        compile_tiny(folder)
