"""BERT graphs against sentence-transformers' vectors, and the settings that are rejected."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import tokenizers
from safetensors.numpy import load_file, save_file

from embedder.core.session import session_options
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.graph.builder import Precision
from model_compiler.model.base import GRAPH_FILE
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import Edit, padded
from tests.model_compiler.goldens.tiny_models import TEXTS, VARIANTS, write_model

GOLDEN = np.load(Path(__file__).parents[2] / "goldens" / "tiny.npz")


def run(folder: Path, precision: Precision = Precision.FP32, *, batch: bool = False) -> np.ndarray:
    """Compile the folder's graph and embed the golden texts, one by one or at once."""
    model = read_model_folder(folder, precision)
    output = folder.parent / f"{folder.name}-graph"
    output.mkdir(exist_ok=True)
    model.write(output)
    options = session_options("none", threads=1)
    session = onnxruntime.InferenceSession(str(output / GRAPH_FILE), options)
    library = tokenizers.Tokenizer.from_buffer(model.tokenizer.data)
    library.enable_truncation(model.max_tokens)
    sequences = [library.encode(text).ids for text in TEXTS]
    batches = [sequences] if batch else [[sequence] for sequence in sequences]
    vectors = []
    for ids, mask in map(padded, batches):
        vectors += list(session.run(None, {"input_ids": ids, "attention_mask": mask})[0])
    return np.array(vectors)


@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_are_those_of_sentence_transformers(tmp_path: Path, variant: str) -> None:
    """Each activation, pooling and Dense gives the reference's vectors to 1e-6 a component."""
    folder = write_model(tmp_path / "model", **VARIANTS[variant])
    np.testing.assert_allclose(run(folder), GOLDEN[variant], atol=1e-6, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("precision", Precision)
def test_padding_changes_nothing(tmp_path: Path, variant: str, precision: Precision) -> None:
    """A text's vector in a padded batch is its vector alone."""
    folder = write_model(tmp_path / "model", **VARIANTS[variant])
    np.testing.assert_allclose(
        run(folder, precision, batch=True), run(folder, precision), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("variant", VARIANTS)
def test_int8_is_near(tmp_path: Path, variant: str) -> None:
    """In int8 every variant keeps the direction of its vectors."""
    folder = write_model(tmp_path / "model", **VARIANTS[variant])
    cosines = (run(folder, Precision.INT8) * GOLDEN[variant]).sum(axis=1)
    assert cosines.min() > 0.99


def test_an_outlier_row_costs_other_rows_nothing(tmp_path: Path) -> None:
    """A token with an embedding a million times larger does not change other texts."""
    folder = write_model(tmp_path / "model")
    before = run(folder, Precision.INT8, batch=True)
    tensors = load_file(folder / "model.safetensors")
    letter_x = 5 + 23
    tensors["embeddings.word_embeddings.weight"][letter_x] *= 1e6
    save_file(tensors, folder / "model.safetensors")
    after = run(folder, Precision.INT8, batch=True)
    without_x = [place for place, text in enumerate(TEXTS) if "x" not in text]
    np.testing.assert_allclose(after[without_x], before[without_x], atol=1e-6, rtol=0)


def test_checkpoint_with_a_head_and_old_names(tmp_path: Path) -> None:
    """A prefix `bert.`, a language model's head, and gamma and beta change no vector."""
    folder = write_model(tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    old = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
    renamed = {}
    for name, tensor in tensors.items():
        for new_name, old_name in old.items():
            name = name.replace(new_name, old_name)  # noqa: PLW2901
        renamed[f"bert.{name}"] = tensor
    renamed["cls.predictions.bias"] = np.zeros(3, np.float32)
    renamed["bert.embeddings.position_ids"] = np.arange(40)[None]
    save_file(renamed, folder / "model.safetensors")
    np.testing.assert_allclose(run(folder), GOLDEN["plain"], atol=1e-6, rtol=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_act": "silu"}, "hidden_act 'silu' is not a supported activation.* gelu, .*relu"),
        ({"position_embedding_type": "relative_key"}, 'position_embedding_type is "relative_key"'),
        ({"is_decoder": True}, "is_decoder is true; the compiler can express false"),
        ({"frobnicate": 3}, "does not know: frobnicate = 3"),
        ({"auto_map": {"AutoModel": "a.B"}}, "auto_map names .*trust_remote_code.* 'bert' without"),
        ({"auto_map": {"AutoModel": "a.B"}, "model_type": "new"}, "trust_remote_code.* 'new' with"),
        ({"model_type": "bart"}, "model_type 'bart' is not a supported architecture.* bert"),
    ],
)
def test_what_the_graph_cannot_express_is_refused_by_name(
    tiny_folder: Path, edit_json: Edit, change: dict[str, object], message: str
) -> None:
    """A setting that would change the vectors is never ignored."""
    edit_json(tiny_folder / "config.json", **change)
    with pytest.raises(UnsupportedModelError, match=message):
        read_model_folder(tiny_folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 33}, "hidden_size 33 is not a multiple of num_attention_heads 4"),
        ({"hidden_size": "32"}, 'hidden_size must be an integer of at least 1 and .*; found "32"'),
        (
            {"num_hidden_layers": 0},
            "num_hidden_layers must be an integer of at least 1 and .*; found 0",
        ),
        ({"layer_norm_eps": None}, "layer_norm_eps is missing"),
        ({"layer_norm_eps": -1}, "layer_norm_eps must be a positive number; found -1"),
    ],
)
def test_wrong_values_are_named(
    tiny_folder: Path, edit_json: Edit, change: dict[str, object], message: str
) -> None:
    """The error for a wrong type or a value out of range names the allowed values."""
    edit_json(tiny_folder / "config.json", **change)
    with pytest.raises(SourceError, match=message):
        read_model_folder(tiny_folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"intermediate_size": 65}, r"intermediate\S+ has shape \[64, 32\]; .* \[65, 32\]"),
        ({"num_hidden_layers": 3}, "no tensor 'encoder.layer.2.attention"),
        ({"vocab_size": 78}, r"word_embeddings.weight has shape \[77, 32\]; .* \[78, 32\]"),
    ],
)
def test_weights_that_do_not_fit_the_configuration(
    tiny_folder: Path, edit_json: Edit, change: dict[str, object], message: str
) -> None:
    """A tensor of another shape than the configuration's, or none, is named with both."""
    edit_json(tiny_folder / "config.json", **change)
    with pytest.raises(SourceError, match=message):
        run(tiny_folder)


def test_layers_that_the_configuration_leaves_out(tiny_folder: Path, edit_json: Edit) -> None:
    """Unused weights are refused, because the model would differ from the trained one."""
    edit_json(tiny_folder / "config.json", num_hidden_layers=1)
    with pytest.raises(UnsupportedModelError, match=r"does not use: encoder.layer.1"):
        run(tiny_folder)


def test_a_few_huge_channels_cost_the_others_nothing(tmp_path: Path) -> None:
    """With activations of 1e5 in two channels of every layer, int8 stays close to fp32."""
    folder = write_model(tmp_path / "model", config={"hidden_size": 96, "num_attention_heads": 4})
    tensors = load_file(folder / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith("LayerNorm.weight"):
            tensor[[7, 40]] *= 1e5
    save_file(tensors, folder / "model.safetensors")
    exact, near = run(folder), run(folder, Precision.INT8)
    assert (exact * near).sum(axis=1).min() > 0.99


def test_a_count_of_layers_that_no_model_has(tiny_folder: Path, edit_json: Edit) -> None:
    """The first layer without weights is an error, before any layer is built."""
    edit_json(tiny_folder / "config.json", num_hidden_layers=1000)
    with pytest.raises(SourceError, match=r"no tensor 'encoder\.layer\.2\.attention"):
        run(tiny_folder)


def test_keys_that_change_nothing(tiny_folder: Path, edit_json: Edit) -> None:
    """rubert-tiny2's `emb_size`, where it is the width, and what transformers 4 wrote, are read."""
    old = {"emb_size": 32, "num_beams": 1, "temperature": 1.0, "torchscript": False}
    edit_json(tiny_folder / "config.json", **old)
    assert read_model_folder(tiny_folder).architecture.hidden_size == 32
    edit_json(tiny_folder / "config.json", emb_size=16)
    with pytest.raises(UnsupportedModelError, match="emb_size is 16; the compiler can express 32"):
        read_model_folder(tiny_folder)
