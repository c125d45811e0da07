"""MPNet (Song et al., 2020, https://arxiv.org/abs/2004.09297): all-mpnet-base-v2 and similar.

Weights have the names of transformers' MPNetModel.
"""

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures.post_norm import BUCKETS, Names, PostNormConfig, check

__all__ = ["parse"]

NAMES = Names(
    model="mpnet.",
    heads=("lm_head.",),
    layer="encoder.layer.",
    query="attention.attn.q",
    key="attention.attn.k",
    value="attention.attn.v",
    out="attention.attn.o",
    attention_norm="attention.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    output_norm="output.LayerNorm",
)

#: transformers' MPNetEmbeddings has this id as a constant and does not read `pad_token_id`.
PADDING_ID = 1


def parse(config: ConfigFile) -> PostNormConfig:
    """Parse a `config.json` of model_type `mpnet`.

    Raises:
        UnsupportedModelError: If this graph cannot express a setting.
        SourceError: If a value is missing or wrong.
    """
    parsed = PostNormConfig(
        name="mpnet",
        names=NAMES,
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=config.integer("hidden_size"),
        layers=config.integer("num_hidden_layers"),
        heads=config.integer("num_attention_heads"),
        intermediate_size=config.integer("intermediate_size"),
        activation=config.string("hidden_act"),
        norm_epsilon=config.number("layer_norm_eps"),
        position_rows=config.integer("max_position_embeddings"),
        padding_id=PADDING_ID,
        relative=True,
    )
    check(config, parsed)
    # Only the size of the table is read from it: the buckets are those of 32.
    config.require("relative_attention_num_buckets", BUCKETS)
    config.done("config.json")
    return parsed
