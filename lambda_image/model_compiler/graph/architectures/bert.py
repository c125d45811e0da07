"""BERT (Devlin et al., 2018, https://arxiv.org/abs/1810.04805) and the families of its kind.

- BERT: MiniLM, bge, e5, gte and similar.
- RoBERTa (Liu et al., 2019, https://arxiv.org/abs/1907.11692), and with another tokenizer
  XLM-RoBERTa (Conneau et al., 2019, https://arxiv.org/abs/1911.02116): e5, bge-m3.
- MPNet (Song et al., 2020, https://arxiv.org/abs/2004.09297): all-mpnet-base-v2 and similar.
- DistilBERT (Sanh et al., 2019, https://arxiv.org/abs/1910.01108).

Weights have the names of transformers' classes.
"""

from dataclasses import replace

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures.post_norm import (
    BUCKETS,
    EXACT_GELU,
    TANH_GELU,
    Names,
    PostNormConfig,
)

__all__ = ["NAMES", "parse"]

_BERT = Names(
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
_ROBERTA = replace(_BERT, model="roberta.", heads=("lm_head.",))

#: The names of weights by `model_type`.
NAMES = {
    "bert": _BERT,
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "mpnet": Names(
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
    ),
    "distilbert": Names(
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
    ),
}

#: The keys of DistilBERT that have other names.
DISTILBERT_KEYS = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
}
#: transformers' DistilBertModel has it as a constant.
DISTILBERT_EPSILON = 1e-12

#: transformers' MPNetEmbeddings has this id as a constant and does not read `pad_token_id`.
MPNET_PADDING_ID = 1


def parse(config: ConfigFile) -> PostNormConfig:
    """Parse a `config.json` of a `model_type` in `NAMES`.

    Raises:
        UnsupportedModelError: If this graph cannot express a setting.
        SourceError: If a value is missing or wrong, or two contradict each other.
    """
    family = config.string("model_type")
    keys = DISTILBERT_KEYS if family == "distilbert" else {key: key for key in DISTILBERT_KEYS}
    padding = _padding_id(config, family)
    parsed = PostNormConfig(
        name=family,
        names=NAMES[family],
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=config.integer(keys["hidden_size"]),
        layers=config.integer(keys["num_hidden_layers"]),
        heads=config.integer(keys["num_attention_heads"]),
        intermediate_size=config.integer(keys["intermediate_size"]),
        activation=config.string(keys["hidden_act"]),
        norm_epsilon=(
            DISTILBERT_EPSILON if family == "distilbert" else config.number("layer_norm_eps")
        ),
        position_rows=config.integer("max_position_embeddings"),
        token_types=(0 if family in {"mpnet", "distilbert"} else config.integer("type_vocab_size")),
        padding_id=padding,
        relative=family == "mpnet",
    )
    supported = EXACT_GELU | TANH_GELU | {"relu"}
    if parsed.activation not in supported:
        raise UnsupportedModelError(
            f"{config.path}: {keys['hidden_act']} {parsed.activation!r} is not a supported "
            f"activation; the compiler supports {', '.join(sorted(supported))}."
        )
    if parsed.hidden_size % parsed.heads:
        raise SourceError(
            f"{config.path}: {keys['hidden_size']} {parsed.hidden_size} is not a multiple of "
            f"{keys['num_attention_heads']} {parsed.heads}."
        )
    if parsed.max_positions < 1:
        raise SourceError(
            f"{config.path}: max_position_embeddings is {parsed.position_rows}; positions are "
            f"counted from {parsed.position_rows - parsed.max_positions}, so none is left."
        )
    config.require("position_embedding_type", "absolute", None)
    if family == "bert":
        # cointegrated/rubert-tiny2 has it; transformers' BertModel does not read it.
        config.require("emb_size", parsed.hidden_size, None)
    if family == "mpnet":
        # Only the size of the table is read from it: the buckets are those of 32.
        config.require("relative_attention_num_buckets", BUCKETS)
    config.done("config.json", *({"bert", "distilbert"} & {family}))
    return parsed


def _padding_id(config: ConfigFile, family: str) -> int | None:
    """Return the id after which positions are counted; None if they are counted from 0."""
    if family == "mpnet":
        return MPNET_PADDING_ID
    if family not in {"roberta", "xlm-roberta"}:
        return None
    padding = config.optional("pad_token_id") if config.has("pad_token_id") else 1
    if type(padding) is not int or padding < 0:
        config.fail("pad_token_id", "an integer of at least 0", padding)
    return padding
