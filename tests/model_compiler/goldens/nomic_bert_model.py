"""A small random Nomic BERT as its own code writes it, with its settings and its names."""

from pathlib import Path

from tests.model_compiler.goldens.encoder_models import LIMIT, write_encoder
from tests.model_compiler.goldens.files import change_tensors, respelled, write_json

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
JOINED = {"attn.Wqkv": [f"self_attn.{letter}_proj" for letter in "qkv"]}


def write_own_nomic_bert(folder: Path) -> Path:
    """Write the model of `write_encoder` in the other spelling, and return its folder."""
    write_encoder(folder, "nomic_bert")
    write_json(folder / "config.json", OWN)
    change_tensors(folder, lambda tensors: respelled(tensors, RENAMED, JOINED))
    return folder
