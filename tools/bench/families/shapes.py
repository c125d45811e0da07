"""The measured shapes: configurations of published models, by the catalog's name of the shape.

Speed and memory depend on a model's sizes, its tokenizer and its vocabulary, and not on the values
of its weights. Sources: `config.json` of the published models.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["FAMILIES", "SHAPES", "Shape"]


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of one kind of model.

    Attributes:
        config: The keys of `config.json` that set its sizes; empty for a static model.
        vocabulary: The number of tokens.
        dimensions: The width of the vectors.
        max_tokens: The limit of a text.
        tokenizer: `wordpiece`, `mpnet`, `unigram`, `RoBERTa`, `ModernBERT`, `Qwen` or `Gemma`.
        pooling: `mean`, `cls` or `lasttoken`; empty for a static model.
    """

    vocabulary: int
    dimensions: int
    max_tokens: int
    tokenizer: str
    pooling: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)


def _encoder(model_type: str, *, layers: int, width: int, **others: Any) -> dict[str, Any]:
    """Return the sizes that BERT and the families of its kind spell alike."""
    return {
        "model_type": model_type,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_attention_heads": 16 if width == 1024 else 12,
        "max_position_embeddings": 512,
        **others,
    }


def _bert(layers: int, width: int, *, pooling: str = "mean") -> Shape:
    config = _encoder("bert", layers=layers, width=width)
    return Shape(30_522, width, 512, "wordpiece", pooling, config)


def _xlm_roberta(layers: int, width: int, *, positions: int) -> Shape:
    config = _encoder(
        "xlm-roberta",
        layers=layers,
        width=width,
        max_position_embeddings=positions + 2,
        type_vocab_size=1,
        pad_token_id=1,
        layer_norm_eps=1e-5,
    )
    pooling = "cls" if positions > 512 else "mean"
    return Shape(250_002, width, positions, "unigram", pooling, config)


def _static(vocabulary: int, width: int) -> Shape:
    return Shape(vocabulary, width, 8192, "wordpiece")


SHAPES: dict[str, Shape] = {
    "bert-6x384": _bert(6, 384),
    "bert-12x384": _bert(12, 384),
    "bert-12x768": _bert(12, 768, pooling="cls"),
    "bert-24x1024": _bert(24, 1024, pooling="cls"),
    # XLM-RoBERTa's vocabulary in a BERT: 35 rows at its end have no token.
    "bert-12x384-multilingual": Shape(
        250_037, 384, 512, "unigram", "mean", _encoder("bert", layers=12, width=384)
    ),
    "mpnet-12x768": Shape(
        30_527,
        768,
        512,
        "mpnet",
        "mean",
        _encoder(
            "mpnet",
            layers=12,
            width=768,
            max_position_embeddings=514,
            relative_attention_num_buckets=32,
            pad_token_id=1,
            layer_norm_eps=1e-5,
        ),
    ),
    "roberta-6x768": Shape(
        50_265,
        768,
        512,
        "RoBERTa",
        "mean",
        _encoder(
            "roberta",
            layers=6,
            width=768,
            max_position_embeddings=514,
            type_vocab_size=1,
            pad_token_id=1,
            layer_norm_eps=1e-5,
        ),
    ),
    "distilbert-6x768": Shape(
        30_522,
        768,
        512,
        "wordpiece",
        "mean",
        {
            "model_type": "distilbert",
            "n_layers": 6,
            "dim": 768,
            "hidden_dim": 3072,
            "n_heads": 12,
            "max_position_embeddings": 512,
        },
    ),
    "xlm-roberta-12x768": _xlm_roberta(12, 768, positions=512),
    "xlm-roberta-24x1024": _xlm_roberta(24, 1024, positions=8192),
    "modernbert-22x768": Shape(
        50_368,
        768,
        8192,
        "ModernBERT",
        "cls",
        {
            "model_type": "modernbert",
            "num_hidden_layers": 22,
            "hidden_size": 768,
            "intermediate_size": 1152,
            "num_attention_heads": 12,
            "max_position_embeddings": 8192,
            "pad_token_id": 50_283,
            "reference_compile": False,
        },
    ),
    "nomic-12x768": Shape(
        30_528,
        768,
        8192,
        "wordpiece",
        "mean",
        {
            "model_type": "nomic_bert",
            "num_hidden_layers": 12,
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_attention_heads": 12,
            "max_position_embeddings": 8192,
        },
    ),
    "qwen3-28x1024": Shape(
        151_669,
        1024,
        32_768,
        "Qwen",
        "lasttoken",
        {
            "model_type": "qwen3",
            "num_hidden_layers": 28,
            "hidden_size": 1024,
            "intermediate_size": 3072,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "max_position_embeddings": 32_768,
            "rope_theta": 1_000_000,
            "tie_word_embeddings": True,
        },
    ),
    # Its folder is the replica of the benchmark without --family.
    "gemma3-24x768": Shape(262_144, 768, 2048, "Gemma", "mean", {"model_type": "gemma3_text"}),
    "static-29528x64": _static(29_528, 64),
    "static-29528x256": _static(29_528, 256),
    "static-63091x512": _static(63_091, 512),
    "static-30522x1024": _static(30_522, 1024),
    "static-105879x1024": _static(105_879, 1024),
}

#: The models of `scripts/bench --family`, one of each kind, and their shapes.
FAMILIES = {
    "multilingual-e5-small": "bert-12x384-multilingual",
    "all-mpnet-base-v2": "mpnet-12x768",
    "gte-modernbert-base": "modernbert-22x768",
    "bge-m3": "xlm-roberta-24x1024",
    "potion-base-8M": "static-29528x256",
    "Qwen3-Embedding-0.6B": "qwen3-28x1024",
}
