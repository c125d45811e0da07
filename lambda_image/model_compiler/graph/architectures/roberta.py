"""RoBERTa (Liu et al., 2019, https://arxiv.org/abs/1907.11692) and XLM-RoBERTa: e5, bge-m3.

XLM-RoBERTa (Conneau et al., 2019, https://arxiv.org/abs/1911.02116) has the same encoder, with
other weights and another tokenizer. Weights have the names of transformers' RobertaModel.
"""

from dataclasses import replace

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures import bert
from model_compiler.graph.architectures.post_norm import PostNormConfig, check

__all__ = ["parse"]

NAMES = replace(bert.NAMES, model="roberta.", heads=("lm_head.",))


def parse(config: ConfigFile) -> PostNormConfig:
    """Parse a `config.json` of model_type `roberta` or `xlm-roberta`.

    Raises:
        UnsupportedModelError: If this graph cannot express a setting.
        SourceError: If a value is missing or wrong.
    """
    padding = config.optional("pad_token_id") if config.has("pad_token_id") else 1
    if type(padding) is not int or padding < 0:
        config.fail("pad_token_id", "an integer of at least 0", padding)
    parsed = PostNormConfig(
        name=config.string("model_type"),
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
        padding_id=padding,
    )
    check(config, parsed)
    config.done("config.json")
    return parsed
