"""A small random ModernBERT with all of the real ones' traits, and the texts that go through it.

Seven layers, so that the first, the fourth and the last attend fully, as in the published models.
The lengths are on both sides of the window (8 tokens to each side) and of the length from which a
text is cut into blocks (144), at the limit (320) and above it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tests.model_compiler.goldens.byte_level_folder import (
    byte_level,
    text_of,
    tokenizer,
    write_folder,
)
from tests.model_compiler.goldens.files import Tensors
from tests.model_compiler.goldens.random_model import RandomWeights

HIDDEN, LAYERS, HEADS, WIDE, WINDOW, POSITIONS = 48, 7, 3, 64, 16, 320
SPECIALS = ("[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]")
#: Lengths in tokens, with the two special ones.
LENGTHS = (3, 4, 7, 8, 9, 10, 17, 18, 33, 143, 144, 145, 201, 319, 320, 321)
TEXTS = {length: text_of(length - 2) for length in LENGTHS}

#: The older form of the keys that have two.
OLDER = {
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
}
NEWER = {
    "layer_types": [
        "sliding_attention" if layer % 3 else "full_attention" for layer in range(LAYERS)
    ],
    "rope_parameters": {
        "full_attention": {"rope_theta": 160000.0, "rope_type": "default"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
    },
}

#: What each golden model has that the plain one does not.
VARIANTS: dict[str, dict[str, Any]] = {
    "mean": {},
    "cls": {"pooling": "cls_token", "newer": True},
    "biases": {"config": {"attention_bias": True, "mlp_bias": True, "norm_bias": True}},
    "tanh gelu": {"config": {"hidden_activation": "gelu_pytorch_tanh", "norm_eps": 1e-3}},
    "silu": {"config": {"hidden_activation": "silu", "local_attention": 6}},
    "all full": {"config": {"global_attn_every_n_layers": 1}},
    "other bases": {"config": {"local_rope_theta": 160000.0, "global_rope_theta": 80000.0}},
}


def write_modernbert(
    folder: Path,
    *,
    config: Mapping[str, Any] | None = None,
    pooling: str = "mean_tokens",
    newer: bool = False,
) -> Path:
    """Write the sentence-transformers folder, with other keys of `config.json`, and return it.

    A newer one has the keys of transformers 5.
    """
    values = {**_config(), **(NEWER if newer else OLDER), **(config or {})}
    ids = {token: 256 + number for number, token in enumerate(SPECIALS)}
    return write_folder(
        folder,
        config=values,
        tensors=_tensors(values),
        tokenizer=tokenizer(
            specials=SPECIALS,
            prefix=("[CLS]",),
            suffix=("[SEP]",),
            pre_tokenizer=byte_level(trim_offsets=True, use_regex=True),
        ),
        tokenizer_config={
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": POSITIONS,
            **{f"{token.strip('[]').lower()}_token": token for token in ids},
        },
        pooling=pooling,
        prompts={},
    )


def _tensors(config: Mapping[str, Any]) -> Tensors:
    weights = RandomWeights(np.random.RandomState(3), scale=None, shift=0.2, gain=0.3)
    weights.table("embeddings.tok_embeddings", config["vocab_size"], HIDDEN)
    norms = ["embeddings.norm", "final_norm"]
    for layer in range(LAYERS):
        name = f"layers.{layer}."
        for layer_name, outputs, inputs in (
            ("attn.Wqkv", 3 * HIDDEN, HIDDEN),
            ("attn.Wo", HIDDEN, HIDDEN),
            ("mlp.Wi", 2 * WIDE, HIDDEN),
            ("mlp.Wo", HIDDEN, WIDE),
        ):
            biased = config["attention_bias" if layer_name.startswith("attn.") else "mlp_bias"]
            weights.linear(f"{name}{layer_name}", outputs, inputs, bias=biased)
        norms += [f"{name}attn_norm"] if layer else []
        norms.append(f"{name}mlp_norm")
    for norm in norms:
        weights.norm(norm, HIDDEN, bias=config["norm_bias"])
    return weights


def _config() -> dict[str, Any]:
    """Return `config.json` with the keys of the published models' that have one form."""
    return {
        "architectures": ["ModernBertModel"],
        "attention_bias": False,
        "bos_token_id": 257,
        "classifier_activation": "gelu",
        "classifier_bias": False,
        "classifier_pooling": "mean",
        "cls_token_id": 257,
        "decoder_bias": True,
        "eos_token_id": 258,
        "hidden_activation": "gelu",
        "hidden_size": HIDDEN,
        "intermediate_size": WIDE,
        "layer_norm_eps": 1e-05,
        "local_attention": WINDOW,
        "max_position_embeddings": POSITIONS,
        "mlp_bias": False,
        "model_type": "modernbert",
        "norm_bias": False,
        "norm_eps": 1e-05,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "pad_token_id": 259,
        "position_embedding_type": "absolute",
        "reference_compile": False,
        "repad_logits_with_grad": False,
        "sep_token_id": 258,
        "torch_dtype": "float32",
        "vocab_size": 256 + len(SPECIALS),
    }
