"""A small random GTE as its own code writes it, with its settings and its names."""

from pathlib import Path
from typing import Any

from tests.model_compiler.goldens.encoder_models import LIMIT, write_encoder
from tests.model_compiler.goldens.files import Tensors, change_tensors, respelled, write_json

#: The settings of gte-multilingual-base with the sizes of the small model.
OWN: dict[str, Any] = {
    "architectures": ["NewModel", "NewForTokenClassification"],
    "attention_probs_dropout_prob": 0.0,
    "auto_map": {
        "AutoConfig": "Alibaba-NLP/new-impl--configuration.NewConfig",
        "AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel",
    },
    "classifier_dropout": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 32,
    "id2label": {"0": "LABEL_0"},
    "initializer_range": 0.02,
    "intermediate_size": 64,
    "label2id": {"LABEL_0": 0},
    "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm",
    "logn_attention_clip1": False,
    "logn_attention_scale": False,
    "max_position_embeddings": LIMIT,
    "model_type": "new",
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "pack_qkv": True,
    "pad_token_id": 1,
    "position_embedding_type": "rope",
    "rope_scaling": {"factor": 8.0, "type": "ntk"},
    "rope_theta": 10,
    "torch_dtype": "float32",
    "transformers_version": "4.39.1",
    "type_vocab_size": 1,
    "unpad_inputs": False,
    "use_memory_efficient_attention": False,
    "vocab_size": 77,
}
#: What snowflake-arctic-embed-m-v2.0 has instead.
ARCTIC = {
    "architectures": ["GteModel"],
    "auto_map": {
        "AutoConfig": "configuration_hf_alibaba_nlp_gte.GteConfig",
        "AutoModel": "modeling_hf_alibaba_nlp_gte.GteModel",
    },
    "matryoshka_dimensions": [16],
    "model_type": "gte",
    "rope_scaling": None,
    "rope_theta": 100,
}
#: The names of transformers and of the model's own code.
RENAMED = {
    "layers.": "encoder.layer.",
    "self_attn.o_proj": "attention.o_proj",
    "post_attention_layernorm": "attn_ln",
    "post_mlp_layernorm": "mlp_ln",
    "lm_head.layer_norm": "lm_head.norm",
}
#: The parts of one matrix there, in their order.
JOINED = {
    "attention.qkv_proj": [f"self_attn.{letter}_proj" for letter in "qkv"],
    "mlp.up_gate_proj": ["mlp.up_proj", "mlp.gate_proj"],
}


def write_own_gte(folder: Path, **changes: Any) -> Path:
    """Write the model of `write_encoder` in the other spelling, and return its folder."""
    write_encoder(folder, "gte")
    write_json(folder / "config.json", {**OWN, **changes})
    respell(folder)
    return folder


def respell(folder: Path) -> None:
    """Give the weights of a folder, also of one with a head, the names of the model's own code."""
    change_tensors(folder, _respelled)


def _respelled(tensors: Tensors) -> Tensors:
    prefix = "gte." if any(name.startswith("gte.") for name in tensors) else ""
    encoder = {name: tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    head = {name: tensor for name, tensor in tensors.items() if name not in encoder}
    named = {f"new.{name.removeprefix(prefix)}": tensor for name, tensor in encoder.items()}
    return respelled(named | head, RENAMED, JOINED)
