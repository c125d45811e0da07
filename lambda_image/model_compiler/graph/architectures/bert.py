"""BERT (Devlin et al., 2018, https://arxiv.org/abs/1810.04805) and the families of its kind.

- BERT: MiniLM, bge, e5, gte and similar.
- RoBERTa (Liu et al., 2019, https://arxiv.org/abs/1907.11692), and with another tokenizer
  XLM-RoBERTa (Conneau et al., 2019, https://arxiv.org/abs/1911.02116): e5, bge-m3.
- MPNet (Song et al., 2020, https://arxiv.org/abs/2004.09297): all-mpnet-base-v2 and similar.
- CamemBERT (Martin et al., 2019, https://arxiv.org/abs/1911.03894), which is RoBERTa for French.
- DistilBERT (Sanh et al., 2019, https://arxiv.org/abs/1910.01108).
- ELECTRA (Clark et al., 2020, https://arxiv.org/abs/2003.10555), with embeddings of another width.
- ERNIE (Sun et al., 2019, https://arxiv.org/abs/1907.12412), with embeddings of a task.
- ALBERT (Lan et al., 2019, https://arxiv.org/abs/1909.11942), with layers that share their weights.

Weights have the names of transformers' classes.
"""

from dataclasses import dataclass, replace

import numpy as np
from onnx import TensorProto

from model_compiler.errors import SourceError
from model_compiler.files.config import ConfigFile
from model_compiler.graph.attention import BUCKETS, LOWEST, FullAttention, relative_bias
from model_compiler.graph.bases.encoder import read_activation
from model_compiler.graph.bases.family import Family, size_of_heads
from model_compiler.graph.bases.post_norm import (
    EncoderNames,
    Normalized,
    PostNormConfig,
    PostNormEncoder,
)
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Floats

_BERT = EncoderNames(
    models=("bert.",),
    heads="cls.predictions.* cls.seq_relationship.*",
    layer="encoder.layer.{}.",
    projections=("attention.self.query", "attention.self.key", "attention.self.value"),
    out="attention.output.dense",
    attention_norm="attention.output.LayerNorm",
    up=("intermediate.dense",),
    down="output.dense",
    output_norm="output.LayerNorm",
)
_ROBERTA = replace(_BERT, models=("roberta.",), heads="lm_head.*")
_ELECTRA_HEADS = "discriminator_predictions.* generator_predictions.* generator_lm_head.*"

#: The names of weights by `model_type`.
NAMES = {
    "bert": _BERT,
    "ernie": replace(_BERT, models=("ernie.",)),
    "electra": replace(_BERT, models=("electra.",), heads=_ELECTRA_HEADS),
    "albert": EncoderNames(
        models=("albert.",),
        heads="predictions.* sop_classifier.*",
        layer="encoder.albert_layer_groups.{}.albert_layers.0.",
        projections=("attention.query", "attention.key", "attention.value"),
        out="attention.dense",
        attention_norm="attention.LayerNorm",
        up=("ffn",),
        down="ffn_output",
        output_norm="full_layer_layer_norm",
        widening="encoder.embedding_hidden_mapping_in",
    ),
    "roberta": _ROBERTA,
    "camembert": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "mpnet": replace(
        _BERT,
        models=("mpnet.",),
        heads="lm_head.*",
        projections=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        out="attention.attn.o",
        attention_norm="attention.LayerNorm",
    ),
    "distilbert": EncoderNames(
        models=("distilbert.",),
        heads="vocab_transform.* vocab_layer_norm.* vocab_projector.*",
        layer="transformer.layer.{}.",
        projections=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        out="attention.out_lin",
        attention_norm="sa_layer_norm",
        up=("ffn.lin1",),
        down="ffn.lin2",
        output_norm="output_layer_norm",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BertConfig(PostNormConfig):
    """The `config.json` of a `model_type` in `NAMES`."""

    #: Positions are counted from this id plus one, over tokens with other ids; None if the
    #: positions of all tokens are counted from 0.
    padding_id: int | None = None
    #: Whether attention has a bias by the distance of two tokens.
    relative: bool = False
    #: Whether the graph's input `segments` has the token types of two texts.
    pair_types: bool = False
    #: Number of tasks that have an embedding; 0 for a family without.
    tasks: int = 0


#: The sizes in `config.json`, and what DistilBERT names them.
_DISTILBERT_NAMES = {
    "hidden_size": "dim",
    "num_hidden_layers": "n_layers",
    "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
    "hidden_act": "activation",
}
#: transformers' DistilBertModel has it as a constant.
DISTILBERT_EPSILON = 1e-12

#: Families, also of exports, with positions that start one after the id of the padding token, as in
#: transformers' `create_position_ids_from_input_ids`. They have that many fewer usable positions.
COUNTED_FROM_PADDING = (
    "camembert",
    "data2vec-text",
    "ibert",
    "longformer",
    "mpnet",
    "roberta",
    "roberta-prelayernorm",
    "xlm-roberta",
    "xlm-roberta-xl",
    "xmod",
)
#: transformers' MPNetEmbeddings has this id as a constant and does not read `pad_token_id`.
MPNET_PADDING_ID = 1


def parse(config: ConfigFile) -> BertConfig:
    """Parse a `config.json` of a `model_type` in `NAMES`; see `Family.parse`."""
    family = config.string("model_type")
    keys = _DISTILBERT_NAMES if family == "distilbert" else {key: key for key in _DISTILBERT_NAMES}
    padding = _padding_id(config, family)
    hidden_size = config.integer(keys["hidden_size"])
    own_width = family in {"albert", "electra"}
    embedding_size = config.integer("embedding_size") if own_width else hidden_size
    names = NAMES[family]
    if family == "electra" and embedding_size != hidden_size:
        names = replace(names, widening="embeddings_project")
    tasks = family == "ernie" and config.boolean("use_task_id", False)
    rows = config.integer("max_position_embeddings")
    size_of_heads(config, width=keys["hidden_size"], heads=keys["num_attention_heads"])
    parsed = BertConfig(
        encoder=_Encoder,
        name=family,
        names=(names,),
        vocabulary_size=config.integer("vocab_size"),
        hidden_size=hidden_size,
        embedding_size=embedding_size,
        layers=config.integer(keys["num_hidden_layers"]),
        heads=config.integer(keys["num_attention_heads"]),
        intermediate_size=config.integer(keys["intermediate_size"]),
        activation=read_activation(config, keys["hidden_act"]),
        norm_epsilon=(
            DISTILBERT_EPSILON if family == "distilbert" else config.number("layer_norm_eps")
        ),
        max_positions=rows - (0 if padding is None else padding + 1),
        token_types=(0 if family in {"mpnet", "distilbert"} else config.integer("type_vocab_size")),
        padding_id=padding,
        relative=family == "mpnet",
        tasks=config.integer("task_type_vocab_size") if tasks else 0,
        groups=config.integer("num_hidden_groups") if family == "albert" else 0,
    )
    if parsed.max_positions < 1:
        raise SourceError(
            f"{config.path}: max_position_embeddings is {rows}; positions are "
            f"counted from {rows - parsed.max_positions}, so none is left."
        )
    config.require("position_embedding_type", "absolute", None)
    if family == "bert":
        # cointegrated/rubert-tiny2 has it; transformers' BertModel does not read it.
        config.require("emb_size", parsed.hidden_size, None)
    if family == "albert":
        config.require("inner_group_num", 1)
    if family == "mpnet":
        # Only the size of the table is read from it: the buckets are those of 32.
        config.require("relative_attention_num_buckets", BUCKETS)
    return parsed


def _padding_id(config: ConfigFile, family: str) -> int | None:
    """Return the id after which positions are counted; None if they are counted from 0."""
    if family == "mpnet":
        return MPNET_PADDING_ID
    if family not in COUNTED_FROM_PADDING:
        return None
    return config.integer("pad_token_id", 1, least=0)


HARMLESS = {
    "albert": {
        "dropout of a classifier": "classifier_dropout_prob",
        "settings of the first program, which transformers' AlbertModel does not read": """
            down_scale_factor gap_size layers_to_keep net_structure_type num_memory_blocks""",
    },
    "bert": {
        "BERT's own pooler, and language modeling": """
            directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
            pooler_size_per_head pooler_type"""
    },
    "electra": {
        "the head of a classifier": """
            summary_activation summary_last_dropout summary_type summary_use_proj"""
    },
    "ernie": {"how many tasks the table has, if it is used": "task_type_vocab_size"},
    "distilbert": {
        "dropout": "dropout qa_dropout seq_classif_dropout",
        "the start of training: the weights have the table in any case": "sinusoidal_pos_embds",
        "the head for language modeling": "tie_weights_",
    },
}
FAMILIES = {name: Family(parse=parse, harmless=HARMLESS.get(name, {})) for name in NAMES}


def _counted_from_0(builder: GraphBuilder, table: Floats) -> str:
    """Add the positions' vectors float32 [tokens, width] to a graph with `input_ids`."""
    tokens = builder.op.Gather(builder.op.Shape("input_ids"), builder.int64(1))
    name, zero = builder.weight("positions", table), builder.int64(0)
    return builder.op.Slice(name, zero, tokens, zero)


def _counted_from_padding(builder: GraphBuilder, table: Floats, padding: int) -> str:
    """Add the positions' vectors float32 [batch, tokens, width] to a graph with `input_ids`.

    The first token has the position after the padding token's id, as in transformers'
    `create_position_ids_from_input_ids`. A padding token inside a text has its own id as its
    position and is not counted.
    """
    op, padding_id = builder.op, builder.constant(padding, np.int64)
    counted = op.Cast(op.Not(op.Equal("input_ids", padding_id)), to=TensorProto.INT64)
    count = op.CumSum(counted, builder.constant(1, np.int64))
    position_ids = op.Add(op.Mul(count, counted), padding_id)
    # By row: a table of 8,194 positions is tens of megabytes, of which a short text needs little.
    return op.Gather(builder.weight("positions", table, by_row=True), position_ids)


#: Number of positions above which attention does without a matrix of all scores: with 16 heads, one
#: of 8,192 tokens has 4.3 GB.
LONG = 1024


class _Encoder(PostNormEncoder[BertConfig]):
    def _start(self) -> Normalized:
        config = self._config
        table = self._table("word", config.vocabulary_size)
        words = self._embedded(table)
        # Rows up to the padding token's are unused.
        unused = 0 if config.padding_id is None else config.padding_id + 1
        positions = self._table("position", unused + config.max_positions)
        # Every token of a single text has type 0 and task 0, so their vectors are added to the
        # positions.
        types = None
        for name, rows in (("token_type", config.token_types), ("task_type", config.tasks)):
            if rows:
                vectors = self._table(name, rows)
                positions = positions + vectors[0]
                types = vectors if name == "token_type" and config.pair_types else types
        if (order := self._order_of(self._names.embedding_norm)) is not None:
            positions = positions[:, order]
        if config.padding_id is None:
            added = _counted_from_0(self._builder, positions)
        else:
            added = _counted_from_padding(self._builder, positions, config.padding_id)
        if types is not None:
            added = self._builder.op.Add(added, self._added_by_type(types))
        total = self._builder.op.Add(words, added)
        hidden = self._normalize(total, self._names.embedding_norm)
        self._relative = [self._relative_bias()] if config.relative else []
        self._full = None
        if config.max_positions > LONG and not config.relative:
            heads, size = config.heads, config.hidden_size // config.heads
            self._full = FullAttention.with_mask(self._builder, heads=heads, head_size=size)
        else:
            self._mask = self._attention_mask()
        return hidden

    def _added_by_type(self, table: Floats) -> str:
        """Add what a token's type adds to that of the type 0, float32 [batch, tokens, width]."""
        # In the input, padding is 0, a token of the type 0 is 1, and one of the type 1 is 2.
        rows = np.stack([np.zeros_like(table[0])] * 2 + [table[1] - table[0]])
        if (order := self._order_of(self._names.embedding_norm)) is not None:
            rows = rows[:, order]
        return self._builder.op.Gather(self._builder.weight("types", rows), "segments")

    def _table(self, kind: str, rows: int) -> Floats:
        return self._take(f"embeddings.{kind}_embeddings.weight", rows, self._config.embedding_size)

    def _relative_bias(self) -> str:
        table = self._take("encoder.relative_attention_bias.weight", BUCKETS, self._config.heads)
        return relative_bias(self._builder, table, self._config.max_positions)

    def _attention_mask(self) -> str:
        op, int64 = self._builder.op, self._builder.int64
        if self._relative:
            # 1 for a token, 0 for padding, as MultiHeadAttention takes it.
            return op.Cast("attention_mask", to=TensorProto.INT32)
        # What is added to the score of a query and a key, float32 [batch, 1, tokens, tokens].
        padded = op.Equal("attention_mask", self._builder.constant(0, np.int64))
        lowest = op.Mul(
            op.Cast(padded, to=TensorProto.FLOAT), self._builder.constant(LOWEST, np.float32)
        )
        keys = op.Unsqueeze(lowest, int64(1, 2))
        return op.Expand(keys, op.Concat(int64(1, 1), self._tokens, int64(1), axis=0))

    def _attended(self, projected: str, layer: str, biases: tuple[Floats, Floats] | None) -> str:
        builder, heads = self._builder, self._config.heads
        tensors = builder.split(projected, [self._config.hidden_size] * 3)
        # A key's bias adds the same to all scores of a query, which the softmax takes away.
        query, key, value = self._with_biases(tensors, layer, (biases or ())[:1])
        if self._full:
            return self._full.add(query, key, value)
        if self._relative:
            return builder.microsoft.MultiHeadAttention(
                query,
                key,
                value,
                "",
                self._mask,
                *self._relative,
                num_heads=heads,
                mask_filter_value=LOWEST,
            )
        return builder.attention(query, key, value, self._mask, heads=heads)
