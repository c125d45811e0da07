"""A small random GTE as its own code writes it, with its settings and its names."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.model_compiler.goldens.encoder_models import LIMIT, write_encoder

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
    "attention.qkv_proj": [f"self_attn.{part}_proj" for part in "qkv"],
    "mlp.up_gate_proj": ["mlp.up_proj", "mlp.gate_proj"],
}


def write_own_gte(folder: Path, **changes: Any) -> Path:
    """Write the model of `write_encoder` in the other spelling, and return its folder."""
    write_encoder(folder, "gte")
    (folder / "config.json").write_text(json.dumps({**OWN, **changes}), encoding="utf-8")
    respell(folder)
    return folder


def respell(folder: Path) -> None:
    """Give the weights of a folder the names of the model's own code."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    prefix = "gte." if any(name.startswith("gte.") for name in tensors) else ""
    for layer in (f"{prefix}layers.{number}." for number in range(2)):
        for joined, parts in JOINED.items():
            for kind in ("weight", "bias"):
                names = [f"{layer}{part}.{kind}" for part in parts]
                found = [tensors.pop(name) for name in names if name in tensors]
                if found:
                    tensors[f"{layer}{joined}.{kind}"] = np.concatenate(found)
    heads = {name for name in tensors if not name.startswith(prefix)}
    save_file(
        {_renamed(name, prefix, head=name in heads): tensor for name, tensor in tensors.items()},
        path,
    )


def _renamed(name: str, prefix: str, *, head: bool) -> str:
    """Return a tensor's name in the model's own code, in a checkpoint with a head."""
    for newer, own in RENAMED.items():
        name = name.replace(newer, own)
    return name if head else f"new.{name.removeprefix(prefix)}"
