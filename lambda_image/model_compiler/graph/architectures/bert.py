"""BERT (Devlin et al., 2018, https://arxiv.org/abs/1810.04805): MiniLM, bge, e5, gte and similar.

Weights have the names of transformers' BertModel.
"""

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures.post_norm import Names, PostNormConfig, check

__all__ = ["NAMES", "parse"]

NAMES = Names(
    model="bert.",
    heads=("cls.",),
    layer="encoder.layer.",
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    out="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    up="intermediate.dense",
    down="output.dense",
    output_norm="output.LayerNorm",
)


def parse(config: ConfigFile) -> PostNormConfig:
    """Parse a `config.json` of model_type `bert`.

    Raises:
        UnsupportedModelError: If this graph cannot express a setting.
        SourceError: If a value is missing or wrong.
    """
    parsed = PostNormConfig(
        name="bert",
        names=NAMES,
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=config.integer("hidden_size"),
        layers=config.integer("num_hidden_layers"),
        heads=config.integer("num_attention_heads"),
        intermediate_size=config.integer("intermediate_size"),
        activation=config.string("hidden_act"),
        norm_epsilon=config.number("layer_norm_eps"),
        position_rows=config.integer("max_position_embeddings"),
        token_types=config.integer("type_vocab_size"),
    )
    check(config, parsed)
    # cointegrated/rubert-tiny2 has it; transformers' BertModel does not read it.
    config.require("emb_size", parsed.hidden_size, None)
    config.done("config.json", "bert")
    return parsed
