"""Nomic BERT as its own code writes it; its vectors are tested with the other encoders."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from embedder.core.session import Session
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from model_compiler.model.folder import read_model_folder
from tests.model_compiler.conftest import Compile, Edit
from tests.model_compiler.goldens.encoder_models import LIMIT, sequences, write_encoder

GOLDEN = np.load(Path(__file__).resolve().parents[2] / "goldens" / "encoders.npz")

#: The settings of nomic-embed-text-v1.5 with the sizes of the small model.
OWN = {
    "activation_function": "swiglu",
    "architectures": ["NomicBertModel"],
    "attn_pdrop": 0.0,
    "auto_map": {
        "AutoConfig": "nomic-ai/nomic-bert-2048--configuration_hf_nomic_bert.NomicBertConfig",
        "AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel",
    },
    "bos_token_id": None,
    "causal": False,
    "dense_seq_output": True,
    "embd_pdrop": 0.0,
    "eos_token_id": None,
    "fused_bias_fc": True,
    "fused_dropout_add_ln": True,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-12,
    "max_trained_positions": 2048,
    "mlp_fc1_bias": False,
    "mlp_fc2_bias": False,
    "model_type": "nomic_bert",
    "n_embd": 32,
    "n_head": 4,
    "n_inner": 64,
    "n_layer": 2,
    "n_positions": LIMIT,
    "pad_vocab_size_multiple": 64,
    "parallel_block": False,
    "parallel_block_tied_norm": False,
    "prenorm": False,
    "qkv_proj_bias": False,
    "reorder_and_upcast_attn": False,
    "resid_pdrop": 0.0,
    "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0,
    "rotary_emb_interleaved": False,
    "rotary_emb_scale_base": None,
    "rotary_scaling_factor": None,
    "scale_attn_by_inverse_layer_idx": False,
    "scale_attn_weights": True,
    "summary_activation": None,
    "summary_first_dropout": 0.0,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "torch_dtype": "float32",
    "transformers_version": "4.34.0",
    "type_vocab_size": 2,
    "use_cache": True,
    "use_flash_attn": True,
    "use_rms_norm": False,
    "use_xentropy": True,
    "vocab_size": 77,
}
#: The names of transformers and of the model's own code.
RENAMED = {
    "embeddings.LayerNorm": "emb_ln",
    "layers.": "encoder.layers.",
    "self_attn.o_proj": "attn.out_proj",
    "up_proj": "fc11",
    "gate_proj": "fc12",
    "down_proj": "fc2",
    "post_attention_layernorm": "norm1",
    "post_mlp_layernorm": "norm2",
}


@pytest.fixture
def folder(tmp_path: Path, edit_json: Edit) -> Path:
    """Return a folder with the settings and the names of the model's own code."""
    folder = write_encoder(tmp_path / "model", "nomic_bert")
    edit_json(folder / "config.json", lambda _: OWN)
    tensors = load_file(folder / "model.safetensors")
    for layer in range(2):
        name = f"layers.{layer}."
        parts = [tensors.pop(f"{name}self_attn.{part}_proj.weight") for part in "qkv"]
        tensors[f"{name}attn.Wqkv.weight"] = np.concatenate(parts)
    save_file({renamed(name): tensor for name, tensor in tensors.items()}, folder / "new")
    (folder / "new").rename(folder / "model.safetensors")
    return folder


def renamed(name: str) -> str:
    """Return a tensor's name in the model's own code."""
    for newer, own in RENAMED.items():
        name = name.replace(newer, own)
    return name


def embed(folder: Path, compile_tiny: Compile) -> np.ndarray:
    """Compile the folder and run the golden sequences one by one."""
    session = Session(compile_tiny(folder))
    return np.concatenate([session.run(ids[None], np.ones_like(ids)[None]) for ids in sequences()])


def test_the_names_of_its_own_code(folder: Path, compile_tiny: Compile) -> None:
    """The vectors are the same with both spellings, and no code of `auto_map` is needed."""
    vectors = embed(folder, compile_tiny)
    np.testing.assert_allclose(vectors, GOLDEN["nomic_bert mean"], atol=1e-5, rtol=0)
    assert read_model_folder(folder).max_tokens == LIMIT


@pytest.mark.parametrize(("prefix", "head"), [("bert.", "cls.x"), ("nomic_bert.", "cls.x")])
def test_checkpoint_with_a_head(
    folder: Path, compile_tiny: Compile, prefix: str, head: str
) -> None:
    """A language model's prefix and head change no vector."""
    tensors = load_file(folder / "model.safetensors")
    prefixed = {f"{prefix}{name}": tensor for name, tensor in tensors.items()}
    save_file({**prefixed, head: np.ones(3, np.float32)}, folder / "model.safetensors")
    vectors = embed(folder, compile_tiny)
    np.testing.assert_allclose(vectors, GOLDEN["nomic_bert mean"], atol=1e-5, rtol=0)


def test_a_file_with_both_spellings(folder: Path, edit_json: Edit) -> None:
    """Equal values are read once, and the larger number of positions is the limit."""
    path = folder / "config.json"
    edit_json(path, hidden_size=32, num_hidden_layers=2, max_position_embeddings=99)
    parsed = architectures.parse(ConfigFile(path))
    assert (parsed.hidden_size, parsed.max_positions) == (32, LIMIT)
    edit_json(path, hidden_size=48)
    with pytest.raises(SourceError, match="n_embd must be the same as hidden_size, 48; found 32"):
        architectures.parse(ConfigFile(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rotary_scaling_factor": 2.0}, "rotary_scaling_factor is 2.0; .* can express null"),
        ({"rotary_emb_fraction": 0.5}, "rotary_emb_fraction is 0.5; .* can express 1.0"),
        ({"qkv_proj_bias": True}, "qkv_proj_bias is true; .* can express false"),
        ({"prenorm": True}, "prenorm is true"),
        ({"activation_function": "gelu"}, 'activation_function is "gelu"; .* express "swiglu"'),
        ({"head_dim": 16}, "head_dim is 16; .* can express null or 8"),
        ({"rope_parameters": {"rope_type": "yarn"}}, "rope_parameters has rope_type = 'yarn'"),
        ({"num_experts": 8}, "does not know: num_experts = 8"),
    ],
)
def test_what_the_graph_cannot_express_is_refused_by_name(
    folder: Path, edit_json: Edit, change: dict[str, Any], message: str
) -> None:
    """A setting that would change the vectors is never ignored."""
    edit_json(folder / "config.json", **change)
    with pytest.raises(UnsupportedModelError, match=message):
        read_model_folder(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_head": 5}, "hidden size must be a multiple of twice .*; found 32 and 5"),
        ({"n_layer": 10**9}, "n_layer must be an integer of at least 1 and at most 1000"),
        ({"n_positions": 10**9}, "n_positions must be an integer of at least 1 and at most"),
        ({"n_inner": None}, "intermediate_size is missing"),
    ],
)
def test_wrong_values_are_named(
    folder: Path, edit_json: Edit, change: dict[str, Any], message: str
) -> None:
    """The error has the file's key, the value and what is allowed."""
    edit_json(folder / "config.json", **change)
    with pytest.raises(SourceError, match=message):
        read_model_folder(folder)
