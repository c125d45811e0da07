"""DistilBERT (Sanh et al., 2019, https://arxiv.org/abs/1910.01108).

Weights have the names of transformers' DistilBertModel.
"""

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures.post_norm import Names, PostNormConfig, check

__all__ = ["parse"]

NAMES = Names(
    model="distilbert.",
    heads=("vocab_transform.", "vocab_layer_norm.", "vocab_projector."),
    layer="transformer.layer.",
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    out="attention.out_lin",
    attention_norm="sa_layer_norm",
    up="ffn.lin1",
    down="ffn.lin2",
    output_norm="output_layer_norm",
)

#: transformers' DistilBertModel has it as a constant.
NORM_EPSILON = 1e-12


def parse(config: ConfigFile) -> PostNormConfig:
    """Parse a `config.json` of model_type `distilbert`.

    Raises:
        UnsupportedModelError: If this graph cannot express a setting.
        SourceError: If a value is missing or wrong.
    """
    parsed = PostNormConfig(
        name="distilbert",
        names=NAMES,
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=config.integer("dim"),
        layers=config.integer("n_layers"),
        heads=config.integer("n_heads"),
        intermediate_size=config.integer("hidden_dim"),
        activation=config.string("activation"),
        norm_epsilon=NORM_EPSILON,
        position_rows=config.integer("max_position_embeddings"),
    )
    check(config, parsed, size="dim", heads="n_heads", activation="activation")
    config.done("config.json", "distilbert")
    return parsed
