"""Jina Embeddings v3 (Sturua et al., 2024, https://arxiv.org/abs/2409.10173) of transformers.

An XLM-RoBERTa with rotary positions. transformers saves it with the names of the model's own code.
"""

from dataclasses import replace

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures.family import Family
from model_compiler.graph.architectures.layer_settings import rope_base
from model_compiler.graph.architectures.rotary_post_norm import NAMES, RotaryConfig, head_size
from model_compiler.graph.encoder import read_activation

TRANSFORMERS = replace(
    NAMES, models=("roberta.",), heads=("lm_head.",), up=("mlp.fc1",), gate=None, down="mlp.fc2"
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
    """Parse a `config.json` of model_type `jina_embeddings_v3`.

    Raises:
        UnsupportedModelError: If this graph cannot express a setting.
        SourceError: If a value is missing or wrong.
    """
    hidden_size, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    head_size(config, hidden_size=hidden_size, heads=heads)
    config.require("position_embedding_type", "rotary", None)
    rope = config.optional("rope_parameters") or {}
    return RotaryConfig(
        name="jina_embeddings_v3",
        names=(TRANSFORMERS, OWN),
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=hidden_size,
        embedding_size=hidden_size,
        layers=config.integer("num_hidden_layers"),
        heads=heads,
        intermediate_size=config.integer("intermediate_size"),
        activation=read_activation(config, "hidden_act"),
        norm_epsilon=config.number("layer_norm_eps"),
        max_positions=config.integer("max_position_embeddings"),
        token_types=config.integer("type_vocab_size"),
        rope_base=rope_base(config, rope, where="rope_parameters", default=DEFAULT_ROPE_BASE),
    )


FAMILY = Family(parse=parse)
