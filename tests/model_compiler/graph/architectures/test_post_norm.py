"""Encoders of BERT's kind against sentence-transformers, in full precision and in int8."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.artifact import Artifact
from embedder.core.session import Session
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from model_compiler.graph.architectures.bert import bucket
from model_compiler.graph.builder import Precision
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import Compile, Edit, padded
from tests.model_compiler.goldens.encoder_models import (
    CONFIGS,
    LIMIT,
    VARIANTS,
    sequences,
    write_encoder,
    write_variant,
)

GOLDENS = Path(__file__).resolve().parents[2] / "goldens"
GOLDEN = np.load(GOLDENS / "encoders.npz")
IDS = sequences()

Floats = npt.NDArray[np.float32]


def embed(artifact: Artifact, batch: Sequence[npt.NDArray[np.int64]]) -> Floats:
    """Run sequences of ids together, padded to the longest."""
    return Session(artifact).run(*padded([list(map(int, ids)) for ids in batch]))


def embed_each(artifact: Artifact, sequences: Sequence[npt.NDArray[np.int64]]) -> Floats:
    """Run sequences of ids one by one."""
    session = Session(artifact)
    return np.concatenate([session.run(ids[None], np.ones_like(ids)[None]) for ids in sequences])


@pytest.mark.parametrize("variant", VARIANTS)
def test_vectors_are_those_of_sentence_transformers(
    tmp_path: Path, compile_tiny: Compile, variant: str
) -> None:
    """Each length up to the limit, and padding ids inside a text, give the reference's vectors."""
    artifact = compile_tiny(write_variant(tmp_path / "model", variant))
    np.testing.assert_allclose(embed_each(artifact, IDS), GOLDEN[variant], atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_padding_changes_nothing(tmp_path: Path, compile_tiny: Compile, variant: str) -> None:
    """A text's vector in a padded batch is its vector alone."""
    artifact = compile_tiny(write_variant(tmp_path / "model", variant))
    np.testing.assert_allclose(embed(artifact, IDS), GOLDEN[variant], atol=1e-5, rtol=0)


@pytest.mark.parametrize("variant", VARIANTS)
def test_int8_is_near(tmp_path: Path, compile_tiny: Compile, variant: str) -> None:
    """In int8 every variant keeps the direction of its vectors."""
    artifact = compile_tiny(write_variant(tmp_path / "model", variant), Precision.INT8)
    assert (embed_each(artifact, IDS) * GOLDEN[variant]).sum(axis=1).min() > 0.99


@pytest.mark.parametrize("family", CONFIGS)
@pytest.mark.parametrize("precision", Precision)
def test_a_text_is_the_same_in_any_company(
    tmp_path: Path, compile_tiny: Compile, family: str, precision: Precision
) -> None:
    """Texts of one length have bit-identical vectors alone and in a batch."""
    artifact = compile_tiny(write_encoder(tmp_path / "model", family), precision)
    batch = list(np.random.RandomState(5).randint(5, 70, (9, 40)))
    np.testing.assert_array_equal(embed(artifact, batch), embed_each(artifact, batch))


@pytest.mark.parametrize("family", CONFIGS)
def test_both_generations_of_config_files(tmp_path: Path, family: str) -> None:
    """The file that transformers 5 writes is read like the older one, with the same limit."""
    folder = write_encoder(tmp_path / "model", family)
    older = read_model_folder(folder)
    newer = json.loads((GOLDENS / "encoders.json").read_text("utf-8"))[family]
    (folder / "config.json").write_text(json.dumps(newer), encoding="utf-8")
    assert architectures.parse(ConfigFile(folder / "config.json")) == older.architecture
    assert older.max_tokens == LIMIT


@pytest.mark.parametrize(
    ("family", "prefix", "head"),
    [
        ("mpnet", "mpnet.", "lm_head.dense.weight"),
        ("distilbert", "distilbert.", "vocab_transform.weight"),
        ("roberta", "roberta.", "lm_head.bias"),
        ("xlm-roberta", "roberta.", "lm_head.layer_norm.weight"),
    ],
)
def test_checkpoint_with_a_head(
    tmp_path: Path, compile_tiny: Compile, family: str, prefix: str, head: str
) -> None:
    """A language model's prefix, head and pooler change no vector."""
    folder = write_encoder(tmp_path / "model", family)
    tensors = load_file(folder / "model.safetensors")
    renamed = {f"{prefix}{name}": tensor for name, tensor in tensors.items()}
    renamed[head] = np.ones(3, np.float32)
    renamed[f"{prefix}pooler.dense.bias"] = np.ones(3, np.float32)
    renamed[f"{prefix}embeddings.position_ids"] = np.arange(4)
    save_file(renamed, folder / "model.safetensors")
    vectors = embed_each(compile_tiny(folder), IDS)
    np.testing.assert_allclose(vectors, GOLDEN[f"{family} mean"], atol=1e-5, rtol=0)


def test_a_classifier_is_refused(tmp_path: Path, compile_tiny: Compile) -> None:
    """The head of a classifier is no part of an embedding model, so its tensors are named."""
    folder = write_encoder(tmp_path / "model", "xlm-roberta")
    tensors = load_file(folder / "model.safetensors")
    renamed = {f"roberta.{name}": tensor for name, tensor in tensors.items()}
    renamed["classifier.dense.weight"] = np.ones((3, 3), np.float32)
    save_file(renamed, folder / "model.safetensors")
    with pytest.raises(UnsupportedModelError, match=r"does not use: classifier\.dense\.weight"):
        compile_tiny(folder)


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("mpnet", {"relative_attention_num_buckets": 64}, "buckets is 64; .* can express 32"),
        ("mpnet", {"hidden_act": "silu"}, "hidden_act 'silu' is not a supported activation"),
        ("mpnet", {"type_vocab_size": 2}, "does not know: type_vocab_size = 2"),
        ("distilbert", {"activation": "silu"}, "activation 'silu' is not a supported activation"),
        ("distilbert", {"hidden_size": 32}, "does not know: hidden_size = 32"),
        ("roberta", {"position_embedding_type": "relative_key"}, "position_embedding_type is"),
        ("roberta", {"is_decoder": True}, "is_decoder is true; the compiler can express false"),
        ("xlm-roberta", {"adapter_layers": 2}, "does not know: adapter_layers = 2"),
    ],
)
def test_what_the_graph_cannot_express_is_refused_by_name(
    tmp_path: Path, edit_json: Edit, family: str, change: dict[str, object], message: str
) -> None:
    """A setting that would change the vectors is never ignored."""
    folder = write_encoder(tmp_path / "model", family)
    edit_json(folder / "config.json", **change)
    with pytest.raises(UnsupportedModelError, match=message):
        read_model_folder(folder)


@pytest.mark.parametrize(
    ("family", "change", "message"),
    [
        ("distilbert", {"n_heads": 5}, "dim 32 is not a multiple of n_heads 5"),
        ("roberta", {"pad_token_id": -1}, "pad_token_id must be an integer of at least 0; found -"),
        ("roberta", {"pad_token_id": "1"}, 'pad_token_id must be an integer .*; found "1"'),
        ("mpnet", {"max_position_embeddings": 2}, "is 2; positions are counted from 2, so none is"),
    ],
)
def test_wrong_values_are_named(
    tmp_path: Path, edit_json: Edit, family: str, change: dict[str, object], message: str
) -> None:
    """The error has the file's key, the value and what is allowed."""
    folder = write_encoder(tmp_path / "model", family)
    edit_json(folder / "config.json", **change)
    with pytest.raises(SourceError, match=message):
        read_model_folder(folder)


def test_small_distances_have_their_own_bucket() -> None:
    """The buckets 0 to 7 are for keys at or before the query, 17 to 23 for keys after it."""
    assert [bucket(-distance) for distance in range(8)] == list(range(8))
    assert [bucket(distance) for distance in range(1, 8)] == list(range(17, 24))


def test_large_distances_share_logarithmic_buckets() -> None:
    """A bucket begins at 8 times each power of the square root of 2, and 128 is in the last."""
    starts = [math.ceil(8 * 2 ** (power / 2)) for power in range(8)]
    assert [bucket(-start) for start in starts] == list(range(8, 16))
    assert [bucket(1 - start) for start in starts[1:]] == list(range(8, 15))
    assert bucket(-128) == bucket(-100_000) == 15
    assert bucket(128) == bucket(100_000) == 31
