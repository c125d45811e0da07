"""A small random Qwen3-Embedding with all of the real ones' traits, and texts of many lengths.

Six query heads share three key and value heads, and heads are wider than the hidden size divided
by their number, as in the published 0.6B model. The last token is the appended `<|endoftext|>`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.model_compiler.goldens.byte_level_folder import (
    Tensors,
    normal,
    text_of,
    tokenizer,
    write_folder,
)

HIDDEN, LAYERS, HEADS, SHARED, HEAD, WIDE, POSITIONS = 48, 3, 6, 3, 16, 64, 320
SPECIALS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
#: In tokens, with the appended one.
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

#: What each golden model has that the plain one does not.
VARIANTS: dict[str, dict[str, Any]] = {
    "last token": {},
    "newer": {"newer": True, "config": {"rms_norm_eps": 1e-3}},
    "mean": {"pooling": "mean_tokens"},
    "one shared head": {"config": {"num_key_value_heads": 1}},
    "no shared heads": {"config": {"num_key_value_heads": HEADS}},
    "tanh gelu": {"config": {"hidden_act": "gelu_pytorch_tanh", "rope_theta": 10000.0}},
}


def write_qwen3(
    folder: Path,
    *,
    config: Mapping[str, Any] | None = None,
    pooling: str = "lasttoken",
    newer: bool = False,
) -> Path:
    """Write the sentence-transformers folder and return it.

    Args:
        folder: Where to; it is made.
        config: Keys of `config.json` that differ.
        pooling: The pooling mode, under its name in older folders.
        newer: Whether `config.json` has the keys of transformers 5.
    """
    values = {**_config(), **(NEWER if newer else OLDER), **(config or {})}
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
                    {
                        "type": "ByteLevel",
                        "add_prefix_space": False,
                        "trim_offsets": False,
                        "use_regex": False,
                    },
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


def _tensors(config: Mapping[str, Any]) -> Tensors:
    random = np.random.RandomState(5)
    queries, keys = HEADS * HEAD, config["num_key_value_heads"] * HEAD
    tensors = {"embed_tokens.weight": normal(random, config["vocab_size"], HIDDEN, scale=1)}
    norms = {"norm": HIDDEN}
    for layer in range(LAYERS):
        name = f"layers.{layer}."
        for part, outputs, inputs in (
            ("self_attn.q_proj", queries, HIDDEN),
            ("self_attn.k_proj", keys, HIDDEN),
            ("self_attn.v_proj", keys, HIDDEN),
            ("self_attn.o_proj", HIDDEN, queries),
            ("mlp.gate_proj", WIDE, HIDDEN),
            ("mlp.up_proj", WIDE, HIDDEN),
            ("mlp.down_proj", HIDDEN, WIDE),
        ):
            tensors[f"{name}{part}.weight"] = normal(random, outputs, inputs, scale=inputs**-0.5)
        norms |= {f"{name}self_attn.{part}_norm": HEAD for part in "qk"}
        norms |= {f"{name}{part}_layernorm": HIDDEN for part in ("input", "post_attention")}
    for name, width in norms.items():
        tensors[f"{name}.weight"] = normal(random, width, scale=0.3, mean=1)
    return tensors


def _config() -> dict[str, Any]:
    """Return `config.json` with the keys of the published models' that have one form."""
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 256,
        "eos_token_id": 256,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "initializer_range": 0.02,
        "intermediate_size": WIDE,
        "max_position_embeddings": POSITIONS,
        "max_window_layers": LAYERS,
        "model_type": "qwen3",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": SHARED,
        "rms_norm_eps": 1e-06,
        "sliding_window": None,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "use_cache": True,
        "use_sliding_window": False,
        "vocab_size": 256 + len(SPECIALS),
    }
