"""Small random models with Llama's layers, and texts of many lengths.

Six query heads share three key and value heads, and heads are wider than the hidden size divided
by their number, as in the published Qwen3-Embedding of 0.6B. The last token is the appended
`<|endoftext|>`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.model_compiler.goldens.byte_level_folder import (
    byte_level,
    text_of,
    tokenizer,
    write_folder,
)
from tests.model_compiler.goldens.files import Tensors, change_tensors, edit_json
from tests.model_compiler.goldens.random_model import RandomWeights, normal

HIDDEN, LAYERS, HEADS, SHARED, HEAD, WIDE, POSITIONS = 48, 3, 6, 3, 16, 64, 320
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
#: Lengths in tokens, with the appended one.
LENGTHS = (2, 3, 4, 5, 9, 16, 33, 64, 65, 143, 201, 257, 319, 320, 321)
TEXTS = {length: text_of(length - 1) for length in LENGTHS}
PROMPTS = {
    "query": "Instruct: Given a web search query, retrieve relevant passages\nQuery:",
    "document": "",
}

#: Qwen's own splitting of a text into words.
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+"
)

OLDER = {"rope_theta": 1000000, "rope_scaling": None}
NEWER = {
    "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
    "layer_types": ["full_attention"] * LAYERS,
}

#: The keys of the published models that have one form, and those of one family.
CONFIG: dict[str, Any] = {
    "attention_bias": False,
    "bos_token_id": 256,
    "eos_token_id": 256,
    "head_dim": HEAD,
    "hidden_act": "silu",
    "hidden_size": HIDDEN,
    "intermediate_size": WIDE,
    "max_position_embeddings": POSITIONS,
    "num_attention_heads": HEADS,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": SHARED,
    "rms_norm_eps": 1e-06,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
    "vocab_size": 256 + len(SPECIALS),
}
OWN_KEYS: dict[str, dict[str, Any]] = {
    "qwen3": {
        "architectures": ["Qwen3ForCausalLM"],
        "max_window_layers": LAYERS,
        "model_type": "qwen3",
        "sliding_window": None,
        "use_sliding_window": False,
    },
    "qwen2": {
        "architectures": ["Qwen2ForCausalLM"],
        "max_window_layers": LAYERS,
        "model_type": "qwen2",
        "sliding_window": 4096,
        "use_sliding_window": False,
    },
    "mistral": {"architectures": ["MistralModel"], "model_type": "mistral", "sliding_window": 4096},
    "eurobert": {
        "architectures": ["EuroBertForMaskedLM"],
        "auto_map": {
            "AutoConfig": "configuration_eurobert.EuroBertConfig",
            "AutoModel": "modeling_eurobert.EuroBertModel",
        },
        "hidden_dropout": 0.0,
        "mlp_bias": False,
        "model_type": "eurobert",
        "pad_token_id": 256,
    },
}

#: What each golden model has that the plain one does not.
VARIANTS: dict[str, dict[str, Any]] = {
    "last token": {},
    "newer": {"newer": True, "config": {"rms_norm_eps": 1e-3}},
    "mean": {"pooling": "mean_tokens"},
    "one shared head": {"config": {"num_key_value_heads": 1}},
    "no shared heads": {"config": {"num_key_value_heads": HEADS}},
    "tanh gelu": {"config": {"hidden_act": "gelu_pytorch_tanh", "rope_theta": 10000.0}},
    "whole text": {"pooling": "mean_tokens", "config": {"is_causal": False}},
    "whole text, heads of 6": {
        "pooling": "mean_tokens",
        "config": {"is_causal": False, "head_dim": 6, "num_key_value_heads": HEADS},
    },
}
QWEN2_VARIANTS: dict[str, dict[str, Any]] = {
    "last token": {},
    "whole text, newer": {"pooling": "mean_tokens", "newer": True, "config": {"is_causal": False}},
}
MISTRAL_VARIANTS: dict[str, dict[str, Any]] = {
    "last token": {},
    "mean, a window of 9": {"pooling": "mean_tokens", "config": {"sliding_window": 9}},
    "no window, newer": {"newer": True, "config": {"sliding_window": None}},
}
EUROBERT_VARIANTS: dict[str, dict[str, Any]] = {
    "last token": {},
    "cls, newer": {"pooling": "cls_token", "newer": True},
    "defaults of heads": {
        "pooling": "mean_tokens",
        "config": {"num_key_value_heads": None, "head_dim": None, "rms_norm_eps": 1e-3},
    },
}


def write_llama(
    folder: Path,
    *,
    family: str = "qwen3",
    config: Mapping[str, Any] | None = None,
    pooling: str = "lasttoken",
    newer: bool = False,
) -> Path:
    """Write the sentence-transformers folder and return it.

    `config` has the keys of `config.json` that differ, with None for one that is missing. A newer
    folder has the keys of transformers 5.
    """
    values = {**CONFIG, **OWN_KEYS[family], **(NEWER if newer else OLDER)}
    for key, value in (config or {}).items():
        values[key] = value
        if value is None:
            del values[key]
    return write_folder(
        folder,
        config=values,
        tensors=_tensors(values),
        tokenizer=tokenizer(
            specials=SPECIALS,
            prefix=(),
            suffix=("<|endoftext|>",),
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [
                    {
                        "type": "Split",
                        "pattern": {"Regex": PATTERN},
                        "behavior": "Isolated",
                        "invert": False,
                    },
                    byte_level(),
                ],
            },
        ),
        tokenizer_config={
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": POSITIONS,
            "pad_token": "<|endoftext|>",
            "eos_token": "<|im_end|>",
            # The published tokenizer pads on the left, which gives the same vectors.
            "padding_side": "left",
        },
        pooling=pooling,
        prompts=PROMPTS,
    )


def write_voyage(folder: Path) -> tuple[Path, npt.NDArray[np.float32]]:
    """Write the model of the variant "whole text" as voyage-4-nano's own code does.

    Returns:
        The folder, and the linear layer [80, hidden_size] that is applied to each token's vector.
    """
    own = {
        "auto_map": {"AutoModel": "modeling_qwen3_bidirectional.Qwen3BidirectionalModel"},
        "num_labels": 80,
        "use_bidirectional_attention": True,
    }
    write_llama(folder, pooling="mean_tokens", config=own)
    edit_json(folder / "1_Pooling" / "config.json", word_embedding_dimension=80)
    linear = normal(np.random.RandomState(6), 80, HIDDEN, scale=0.2)
    change_tensors(
        folder,
        lambda tensors: {
            **{f"model.{name}": tensor for name, tensor in tensors.items()},
            "linear.weight": linear,
        },
    )
    return folder, linear


def projections(queries: int, keys: int) -> Sequence[tuple[str, int, int]]:
    """Return the linear layers of a layer, with their outputs and inputs."""
    return (
        ("self_attn.q_proj", queries, HIDDEN),
        ("self_attn.k_proj", keys, HIDDEN),
        ("self_attn.v_proj", keys, HIDDEN),
        ("self_attn.o_proj", HIDDEN, queries),
        ("mlp.gate_proj", WIDE, HIDDEN),
        ("mlp.up_proj", WIDE, HIDDEN),
        ("mlp.down_proj", HIDDEN, WIDE),
    )


def _tensors(config: Mapping[str, Any]) -> Tensors:
    weights = RandomWeights(np.random.RandomState(5), scale=None, gain=0.3)
    head = config.get("head_dim", HIDDEN // HEADS)
    queries, keys = HEADS * head, config.get("num_key_value_heads", HEADS) * head
    weights.table("embed_tokens", config["vocab_size"], HIDDEN)
    norms = {"norm": HIDDEN}
    for layer in range(LAYERS):
        name = f"layers.{layer}."
        for layer_name, outputs, inputs in projections(queries, keys):
            weights.linear(f"{name}{layer_name}", outputs, inputs, bias=False)
        if config["model_type"] == "qwen2":
            for letter, outputs in (("q", queries), ("k", keys), ("v", keys)):
                weights.draw(f"{name}self_attn.{letter}_proj.bias", outputs, scale=0.5)
        if config["model_type"] == "qwen3":
            norms |= {f"{name}self_attn.{letter}_norm": head for letter in "qk"}
        norms |= {f"{name}{norm}_layernorm": HIDDEN for norm in ("input", "post_attention")}
    for name, width in norms.items():
        weights.norm(name, width, bias=False)
    return weights
