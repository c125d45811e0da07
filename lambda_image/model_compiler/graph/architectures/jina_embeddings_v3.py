"""Jina Embeddings v3 (Sturua et al., 2024, https://arxiv.org/abs/2409.10173) of transformers.

An XLM-RoBERTa with rotary positions. transformers saves it with the names of the model's own code.
"""

from dataclasses import replace

from model_compiler.files.config import ConfigFile
from model_compiler.graph.bases.encoder import read_activation
from model_compiler.graph.bases.family import Family, rope_base, size_of_heads
from model_compiler.graph.bases.post_norm import (
    ROTARY_NAMES,
    RotaryConfig,
    RotaryEncoder,
    read_numbers,
)

TRANSFORMERS = replace(
    ROTARY_NAMES,
    models=("roberta.",),
    heads="lm_head.*",
    up=("mlp.fc1",),
    gate=None,
    down="mlp.fc2",
)
OWN = replace(
    TRANSFORMERS,
    layer="encoder.layers.{}.",
    projections=("mixer.Wqkv",),
    out="mixer.out_proj",
    attention_norm="norm1",
    output_norm="norm2",
    embedding_norm="emb_ln",
)
#: The default of transformers' JinaEmbeddingsV3Config.
DEFAULT_ROPE_BASE = 20_000.0


def parse(config: ConfigFile) -> RotaryConfig:
    """Parse a `config.json` of model_type `jina_embeddings_v3`; see `Family.parse`."""
    config.require("head_dim", None, size_of_heads(config, rotated=True))
    config.require("position_embedding_type", "rotary", None)
    rope = config.optional("rope_parameters") or {}
    return RotaryConfig(
        encoder=RotaryEncoder,
        name="jina_embeddings_v3",
        names=(TRANSFORMERS, OWN),
        **read_numbers(config),
        activation=read_activation(config, "hidden_act"),
        rope_base=rope_base(config, rope, where="rope_parameters", default=DEFAULT_ROPE_BASE),
    )


FAMILY = Family(parse=parse)
