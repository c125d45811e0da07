"""A small random EmbeddingGemma 2 with all of the real one's traits, and texts of many lengths.

Six layers, so that the last attends fully and the others through a window; the lengths are on both
sides of the window (8 tokens to each side) and of the length from which a text is cut into blocks
(144). Four query heads share two key and value heads in a window, and one in full layers, where
heads are wider. A text may name the placeholder of an image.
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
from tests.model_compiler.goldens.llama_model import HIDDEN, WIDE, projections
from tests.model_compiler.goldens.random_model import RandomWeights, normal

LAYERS, HEADS, SIGNAL, VECTOR, POSITIONS = 6, 4, 24, 32, 320
SPECIALS = ("<pad>", "<eos>", "<bos>", "<|image|>", "<|video|>", "<|audio|>")
#: Lengths in tokens, with the two special ones.
LENGTHS = (3, 4, 7, 8, 9, 10, 17, 18, 33, 143, 144, 145, 201, 319, 320, 321)
TEXTS = [*map(text_of, (length - 2 for length in LENGTHS)), "a <|image|> of <|video|> <|audio|>"]

#: A tower of transformers' kind, which no text passes.
VISION = {
    "model_type": "gemma4_vision",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "patch_size": 4,
    "pooling_kernel_size": 1,
    "position_embedding_size": 4,
}
TOWER = {
    "embed_vision.embedding_projection.weight": (HIDDEN, 8),
    "vision_tower.patch_embedder.input_proj.weight": (8, 48),
    "vision_tower.patch_embedder.position_embedding_table": (2, 4, 8),
    **{
        f"vision_tower.encoder.layers.0.{name}.weight": shape
        for name, shape in {
            **{f"self_attn.{letter}_proj.linear": (8, 8) for letter in "qkvo"},
            **{f"self_attn.{letter}_norm": (8,) for letter in "qk"},
            **{f"mlp.{projection}_proj.linear": (16, 8) for projection in ("gate", "up")},
            "mlp.down_proj.linear": (8, 16),
            **{
                f"{norm}_layernorm": (8,)
                for norm in ("input", "post_attention", "pre_feedforward", "post_feedforward")
            },
        }.items()
    },
}


def _full(**heads: int) -> dict[str, Any]:
    """Return the heads of the last layer as transformers writes them."""
    return {"per_layer_config": {f"{LAYERS - 1:02}": heads}}


#: What each golden composite has that the plain one does not.
VARIANTS: dict[str, dict[str, Any]] = {
    "mean": {},
    "max": {"pooling": "max_tokens", "config": {"sliding_window": 3, "rms_norm_eps": 1e-3}},
    "one shared head": {"config": {"num_key_value_heads": 1, "per_layer_config": {}}},
    "no shared heads": {"config": {"num_key_value_heads": 4, **_full(num_key_value_heads=4)}},
    "two full": {
        "config": {
            "layer_types": (["sliding_attention"] * 2 + ["full_attention"]) * 2,
            "per_layer_config": {key: {"head_dim": 32, "num_key_value_heads": 2} for key in "25"},
        }
    },
    "all full, silu": {
        "config": {
            "layer_types": ["full_attention"] * LAYERS,
            "per_layer_config": None,
            "hidden_activation": "silu",
        }
    },
}


#: The same for the model of texts alone.
TEXT_VARIANTS: dict[str, dict[str, Any]] = {"mean": {}, "cls": {"pooling": "cls_token"}}


def write_embedding_gemma2(
    folder: Path,
    *,
    config: Mapping[str, Any] | None = None,
    pooling: str = "mean_tokens",
    text_only: bool = False,
) -> Path:
    """Write the sentence-transformers folder, with other keys of the text model, and return it.

    With `text_only`, the model of texts is alone, and not part of a composite.
    """
    text = {**_config(), **(config or {})}
    tensors = _tensors(text)
    if not text_only:
        random = np.random.RandomState(6)
        tensors = {f"language_model.{name}": tensor for name, tensor in tensors.items()}
        tensors |= {name: normal(random, *shape, scale=1) for name, shape in TOWER.items()}
    ids = {token: 256 + number for number, token in enumerate(SPECIALS)}
    composite = {
        "architectures": ["EmbeddingGemma2Model"],
        "model_type": "embedding_gemma2",
        "text_config": text,
        "vision_config": VISION,
        "audio_config": None,
        "boi_token_id": 70,
        "eoi_token_id": 71,
        "boa_token_id": 72,
        "eoa_token_index": 73,
        **{
            f"{modality}_token_id": ids[f"<|{modality}|>"]
            for modality in ("image", "video", "audio")
        },
        "dtype": "float32",
        "transformers_version": "5.23.0",
    }
    return write_folder(
        folder,
        config=text if text_only else composite,
        tensors=tensors,
        tokenizer=tokenizer(
            specials=SPECIALS, prefix=("<bos>",), suffix=("<eos>",), pre_tokenizer=byte_level()
        ),
        tokenizer_config={
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": POSITIONS,
            "pad_token": "<pad>",
            "eos_token": "<eos>",
            "bos_token": "<bos>",
        },
        pooling=pooling,
        prompts={},
        width=VECTOR,
        limit=POSITIONS,
    )


def _tensors(config: Mapping[str, Any]) -> Tensors:
    weights = RandomWeights(np.random.RandomState(5), scale=None, gain=0.3)
    weights.table("embed_tokens", config["vocab_size"], HIDDEN)
    weights.linear("ple.per_layer_model_projection", LAYERS * SIGNAL, HIDDEN, bias=False)
    weights.linear("embedding_projection", VECTOR, HIDDEN, bias=False)
    norms = {"norm": HIDDEN, "ple.per_layer_projection_norm": SIGNAL}
    for layer in range(LAYERS):
        name = f"layers.{layer}."
        changes = config.get("per_layer_config") or {}
        heads = {**config, **changes.get(str(layer), {}), **changes.get(f"{layer:02}", {})}
        size = heads["head_dim"]
        queries, keys = HEADS * size, heads["num_key_value_heads"] * size
        for layer_name, outputs, inputs in (
            *projections(queries, keys),
            ("ple_block.per_layer_input_gate", SIGNAL, HIDDEN),
            ("ple_block.per_layer_projection", HIDDEN, SIGNAL),
        ):
            weights.linear(f"{name}{layer_name}", outputs, inputs, bias=False)
        norms |= {f"{name}self_attn.{letter}_norm": size for letter in "qk"}
        norms |= {f"{name}ple_block.post_per_layer_input_norm": HIDDEN}
        norms |= {
            f"{name}{norm}_layernorm": HIDDEN
            for norm in ("input", "post_attention", "pre_feedforward", "post_feedforward")
        }
        weights[f"{name}layer_scalar"] = np.array([0.5 + layer / LAYERS], np.float32)
    for name, width in norms.items():
        weights.norm(name, width, bias=False)
    return weights


def _config() -> dict[str, Any]:
    """Return the configuration of the published model's text part, in small."""
    return {
        "attention_bias": False,
        "bos_token_id": 258,
        "dtype": "float32",
        "embedding_dim": VECTOR,
        "eos_token_id": 257,
        "head_dim": 16,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": HIDDEN,
        "hidden_size_per_layer_input": SIGNAL,
        "intermediate_size": WIDE,
        "layer_types": ["sliding_attention"] * (LAYERS - 1) + ["full_attention"],
        "max_position_embeddings": POSITIONS,
        "model_type": "embedding_gemma2_text",
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": 2,
        "pad_token_id": 256,
        **_full(head_dim=32, num_key_value_heads=1),
        "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "full_attention": {"rope_theta": 1000000.0, "rope_type": "default"},
            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"},
        },
        "sliding_window": 8,
        "vocab_size": 256 + len(SPECIALS),
    }
