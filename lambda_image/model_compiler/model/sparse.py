"""Reads a sparse encoder: its vectors have a weight for each token of a vocabulary.

It is a folder of sentence-transformers' SparseEncoder: a masked language model under a
SpladePooling (Formal et al., 2021, arXiv:2109.10086), or the table of a SparseStaticEmbedding, with
which queries need no model (Geng et al., 2024, arXiv:2411.04403). The truth is
`sentence_transformers/sparse_encoder/modules`, and the class of each family in transformers. Or it
is the encoder of bge-m3 with its sparse head (Chen et al., 2024, arXiv:2402.03216); the truth is
FlagEmbedding's `M3Embedder`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from onnx import TensorProto

from embedder.core.static_session import WEIGHTS_FILE
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.adapter import refuse_adapter
from model_compiler.files.config import ConfigFile
from model_compiler.files.folder import ConfigFolder
from model_compiler.files.weights import Weights
from model_compiler.graph import architectures
from model_compiler.graph.architectures import Architecture
from model_compiler.graph.architectures.modernbert import read_modernbert_head
from model_compiler.graph.bases.encoder import Hidden, activate
from model_compiler.graph.bases.family import has_own_code
from model_compiler.graph.bases.post_norm import PostNormConfig
from model_compiler.graph.builder import GraphBuilder, Precision
from model_compiler.graph.quantization import Floats, linear
from model_compiler.model.base import INPUTS, Graph, OwnModel
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.folder import (
    MODULES_FILE,
    SPARSE_HEAD,
    UNPOOLED,
    ModelFolder,
    Output,
    read_family,
    read_max_tokens,
    read_prompts,
)
from model_compiler.model.modules import ALL, TakenHead
from model_compiler.tokenizer.file import read_tokenizer, without_special_tokens

#: What the Transformer module of a sparse encoder gives: a logit for each token of the vocabulary.
LOGITS = Output("fill-mask", "logits", "token_embeddings")
#: How often the logarithm is taken, by the `activation_function` of a SpladePooling.
LOGARITHMS = {"relu": 1, "log1p_relu": 2}
STRATEGIES = ("max", "sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitNames:
    """The names of a family's weights for masked language modeling.

    The table of embeddings is also the matrix to the logits.
    """

    table: str
    dense: str
    norm: str
    bias: str
    #: The layer of which a checkpoint may hold copies of the table and the bias.
    decoder: str


_BERT = LogitNames(
    table="bert.embeddings.word_embeddings.weight",
    dense="cls.predictions.transform.dense",
    norm="cls.predictions.transform.LayerNorm",
    bias="cls.predictions.bias",
    decoder="cls.predictions.decoder",
)
_DISTILBERT = LogitNames(
    table="distilbert.embeddings.word_embeddings.weight",
    dense="vocab_transform",
    norm="vocab_layer_norm",
    bias="vocab_projector.bias",
    decoder="vocab_projector",
)
_MODERNBERT = LogitNames(
    table="model.embeddings.tok_embeddings.weight",
    dense="head.dense",
    norm="head.norm",
    bias="decoder.bias",
    decoder="decoder",
)
_ROBERTA = LogitNames(
    table="roberta.embeddings.word_embeddings.weight",
    dense="lm_head.dense",
    norm="lm_head.layer_norm",
    bias="lm_head.bias",
    decoder="lm_head.decoder",
)
#: Names of transformers, and of the model's own code.
_GTE = [
    replace(
        _ROBERTA,
        table=f"{model}.embeddings.word_embeddings.weight",
        norm=f"lm_head.{norm}",
        bias="lm_head.decoder.bias",
    )
    for model in ("gte", "new")
    for norm in ("layer_norm", "norm")
]
#: The spellings of each `model_type`; the first holds if the weights have no other's.
NAMES: dict[str, Sequence[LogitNames]] = {
    "bert": [_BERT],
    "camembert": [_ROBERTA],
    "distilbert": [_DISTILBERT],
    "gte": _GTE,
    "modernbert": [_MODERNBERT],
    "new": _GTE,
    "roberta": [_ROBERTA],
    "xlm-roberta": [_ROBERTA],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpladeHead(TakenHead):
    """Takes the hidden state to logits of the vocabulary, and pools their logarithms.

    A weight is log(1 + relu(logit)), pooled over all tokens, special ones too.
    """

    pooling: None = None
    names: Sequence[LogitNames]
    #: Which of the dense layer, the normalization and the logits have a bias.
    biases: tuple[bool, bool, bool] = (True, True, True)
    hidden_size: int
    vocabulary_size: int
    activation: str
    norm_epsilon: float
    #: One of `STRATEGIES`.
    strategy: str
    logarithms: int

    def take(self, weights: Weights) -> Mapping[str, Floats]:
        """Take the head's weights, before the encoder checks that all are used."""
        size = self.hidden_size
        spelled = (
            spelling
            for spelling in self.names
            if spelling.table in weights and f"{spelling.norm}.weight" in weights
        )
        names = next(spelled, self.names[0])
        biases = (
            ("dense.bias", f"{names.dense}.bias", size),
            ("norm.bias", f"{names.norm}.bias", size),
            ("bias", names.bias, self.vocabulary_size),
        )
        taken = {
            "dense": weights.take(f"{names.dense}.weight", size, size),
            "norm": weights.take(f"{names.norm}.weight", size),
            "decoder": weights.take(names.table, self.vocabulary_size, size),
        }
        for (key, name, width), has_bias in zip(biases, self.biases, strict=True):
            taken[key] = weights.take(name, width) if has_bias else np.zeros(width, np.float32)
            if not has_bias and name in weights:
                raise UnsupportedModelError(
                    f"{weights.folder} has {name}, and config.json says that there is none."
                )
        for key, original in (("weight", names.table), ("bias", names.bias)):
            copy = f"{names.decoder}.{key}"
            if copy != original and copy in weights:
                weights.take(copy, *weights.shape(original))
                weights.check_copy(copy, original)
        return taken

    def add(
        self, builder: GraphBuilder, hidden: Hidden, taken: Mapping[str, Floats], *, output: str
    ) -> None:
        """Take the last hidden state to the graph's output, the weights [batch, vocabulary].

        Dense and normalization stay in float32; the matrix to the logits has the precision.
        """
        op = builder.op
        value = op.MatMul(hidden.complete(), builder.weight("head.dense", taken["dense"].T))
        value = op.Add(value, builder.weight("head.dense.bias", taken["dense.bias"]))
        value = op.LayerNormalization(
            activate(builder, value, self.activation),
            builder.weight("head.norm", taken["norm"]),
            builder.weight("head.norm.bias", taken["norm.bias"]),
            axis=-1,
            epsilon=self.norm_epsilon,
        )
        axis = builder.int64(1)
        present = op.Unsqueeze(ALL, builder.int64(-1))
        bias = builder.weight("head.bias", taken["bias"])
        if self.strategy == "max":
            # In the place of padding the first token again, which changes no maximum. The rest is
            # monotonic, so the maximum comes first, and the logits exist once.
            first_token = op.Slice(value, builder.int64(0), axis, axis)
            value = op.Where(op.Cast(present, to=TensorProto.BOOL), value, first_token)
            logits = linear(builder, value, taken["decoder"], name="head.decoder")
            logits = op.ReduceMax(logits, axis, keepdims=0)
            weight = self._weight(builder, op.Add(logits, bias))
        else:
            logits = linear(builder, value, taken["decoder"], name="head.decoder")
            weight = self._weight(builder, op.Add(logits, bias))
            weight = op.Mul(weight, op.Cast(present, to=TensorProto.DOUBLE))
            weight = op.ReduceSum(weight, axis, keepdims=0)
        op.Cast(weight, to=TensorProto.FLOAT, output=output)
        builder.output(output, dtype=np.float32, shape=["batch", self.vocabulary_size])

    def _weight(self, builder: GraphBuilder, logits: str) -> str:
        """Return the weight of each logit, in float64.

        ONNX Runtime rounds a logarithm differently at the end of an array, where the processor's
        vectors do not fit: in float32, a weight would depend on the other texts. In float64 it is
        a last bit that the rounding to float32 hides.
        """
        value = builder.op.Cast(builder.op.Relu(logits), to=TensorProto.DOUBLE)
        for _ in range(self.logarithms):
            value = builder.op.Log(builder.op.Add(value, builder.constant(1, np.float64)))
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalHead(TakenHead):
    """Weighs each token by a linear layer, and takes the largest weight of equal tokens.

    A weight is relu(logit); special tokens have none. The layer stays in float32.
    """

    pooling: None = None
    hidden_size: int
    vocabulary_size: int
    #: The ids of the tokens without a weight.
    special: Sequence[int]
    file: ClassVar[str] = SPARSE_HEAD

    def take(self, weights: Weights) -> Mapping[str, Floats]:
        """Take the head's weights, before the encoder checks that all are used."""
        return {
            "weight": weights.take("sparse_linear.weight", 1, self.hidden_size),
            "bias": weights.take("sparse_linear.bias", 1),
        }

    def add(
        self, builder: GraphBuilder, hidden: Hidden, taken: Mapping[str, Floats], *, output: str
    ) -> None:
        """Take the last hidden state to the graph's output, the weights [batch, vocabulary]."""
        op, axis, (ids, mask) = builder.op, builder.int64(-1), INPUTS
        logits = op.MatMul(hidden.complete(), builder.weight("head.linear", taken["weight"].T))
        logits = op.Add(logits, builder.weight("head.linear.bias", taken["bias"]))
        special = builder.constant(self.special, np.int64)
        special = op.Cast(op.Equal(op.Unsqueeze(ids, axis), special), to=TensorProto.FLOAT)
        ordinary = op.Sub(builder.constant(1, np.float32), op.ReduceMax(special, axis, keepdims=0))
        weight = op.Mul(op.Squeeze(op.Relu(logits), axis), ordinary)
        weight = op.Mul(weight, op.Cast(mask, to=TensorProto.FLOAT))
        texts = op.Shape(ids, start=0, end=1)
        shape = op.Concat(texts, builder.int64(self.vocabulary_size), axis=0)
        zeros = op.Expand(builder.constant(0, np.float32), shape)
        op.ScatterElements(zeros, ids, weight, axis=1, reduction="max", output=output)
        builder.output(output, dtype=np.float32, shape=["batch", self.vocabulary_size])


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseTable(OwnModel):
    """A weight for each token, which a text has for each of its tokens, however often it occurs."""

    #: Holds `model.safetensors`.
    weights_folder: Path

    def check(self) -> None:
        """Read the table; see `CompilerModel.check`."""
        self._table()

    def write(self, folder: Path, *, progress: bool = False) -> Graph:  # noqa: ARG002 - one small file
        """Write the table, float32 [vocabulary]; see `CompilerModel.write`."""
        table, digest = self._table()
        np.save(folder / WEIGHTS_FILE, table, allow_pickle=False)
        return Graph(
            runtime="numpy",
            file=WEIGHTS_FILE,
            digest=digest,
            source_digest=digest,
            precision=self.precision,
            multiply_adds=1,
        )

    def _table(self) -> tuple[Floats, bytes]:
        weights = Weights(self.weights_folder)
        table = weights.take("weight", self.vocabulary_size)
        weights.done()
        if (table < 0).any():
            raise UnsupportedModelError(
                f"{self.weights_folder}: weight must have no negative value, as SpladePooling's "
                f"vectors have none; found {table.min()}."
            )
        return table, weights.digest


def read_sparse_folder(
    folder: ModelFolder, precision: Precision = Precision.INT8
) -> CompiledModel | SparseTable:
    """Read a sparse encoder's folder, of which the weights are compiled to `precision`.

    A table always stays in float32: it is small.
    """
    if not folder.has_modules:
        return _model(folder, folder, None, precision)
    if folder.kinds == ["SparseStaticEmbedding"]:
        return _read_table(folder, folder.modules[0].folder)
    if folder.kinds not in (["Transformer", "SpladePooling"], ["MLMTransformer", "SpladePooling"]):
        raise UnsupportedModelError(
            f"{folder.path / MODULES_FILE} lists {', '.join(folder.kinds) or 'no modules'}; of a "
            "sparse encoder, the compiler can express a Transformer or MLMTransformer with a "
            "SpladePooling, or a SparseStaticEmbedding."
        )
    (_, encoder), (_, pooling) = folder.modules
    return _model(folder, encoder, pooling, precision)


def _model(
    folder: ModelFolder, encoder: ConfigFolder, pooling: ConfigFolder | None, precision: Precision
) -> CompiledModel:
    """Read an encoder with a SpladePooling, or without one with bge-m3's head."""
    refuse_adapter(encoder)
    config = encoder.config("config.json")
    family = read_family(config, "sparse encoder", NAMES if pooling else ["xlm-roberta"])
    architecture = architectures.parse(config, remedy="")
    tokenizer = read_tokenizer(encoder, vocabulary_size=architecture.vocabulary_size)
    sizes: dict[str, Any] = {
        "hidden_size": architecture.hidden_size,
        "vocabulary_size": architecture.vocabulary_size,
    }
    head: TakenHead
    if pooling is None:
        # The tokens that FlagEmbedding leaves out.
        keys = ("cls_token", "eos_token", "pad_token", "unk_token")
        special = sorted({tokenizer.special[key] for key in keys if key in tokenizer.special})
        head = LexicalHead(special=special, **sizes)
    else:
        strategy, logarithms = _read_pooling(pooling, architecture.vocabulary_size)
        head = SpladeHead(
            names=NAMES[family],
            strategy=strategy,
            logarithms=logarithms,
            **sizes,
            **_before_logits(config, family, architecture),
        )
    return CompiledModel(
        task="sparse",
        family=architecture.name,
        dimensions=architecture.vocabulary_size,
        vocabulary_size=architecture.vocabulary_size,
        max_tokens=read_max_tokens(
            encoder,
            tokenizer,
            max_positions=architecture.max_positions,
            output=LOGITS if pooling else UNPOOLED,
        ),
        prompts=read_prompts(folder, model_type="SparseEncoder", normalized=True),
        tokenizer=tokenizer,
        normalized=True,
        encoder=encoder,
        architecture=architecture,
        head=head,
        precision=precision,
    )


def _before_logits(config: ConfigFile, family: str, architecture: Architecture) -> dict[str, Any]:
    """Return what a model's settings say of the part before the logits."""
    config.require("tie_word_embeddings", True)
    if isinstance(architecture, PostNormConfig):
        activation = architecture.activation
        if NAMES[family] is _GTE:
            # transformers' GteLMHead has GELU, and the model's own code what `hidden_act` says.
            config.require("hidden_act", "gelu")
            has_own_code(config, "NewForMaskedLM", "GteForMaskedLM", key="AutoModelForMaskedLM")
        elif NAMES[family] == [_ROBERTA]:
            activation = "gelu"  # in transformers' RobertaLMHead, whatever `hidden_act` says
        return {"activation": activation, "norm_epsilon": architecture.norm_epsilon}
    head = read_modernbert_head(config)
    biases = (head.pop("dense_bias"), head.pop("norm_bias"), config.boolean("decoder_bias", True))
    return {**head, "biases": biases}


def _read_pooling(folder: ConfigFolder, vocabulary_size: int) -> tuple[str, int]:
    """Return the strategy of a SpladePooling, and how often it takes the logarithm."""
    config = folder.config("config.json")
    strategy = config.string("pooling_strategy", "max")
    if strategy not in STRATEGIES:
        config.fail("pooling_strategy", " or ".join(STRATEGIES), strategy)
    activation = config.string("activation_function", "relu")
    if activation not in LOGARITHMS:
        config.fail("activation_function", " or ".join(LOGARITHMS), activation)
    for key in ("embedding_dimension", "word_embedding_dimension"):
        config.require(key, None, vocabulary_size)
    # It bounds the memory of a run in torch.
    config.ignore(frozenset({"chunk_size"}))
    config.done()
    return strategy, LOGARITHMS[activation]


def _read_table(folder: ModelFolder, module: ConfigFolder) -> SparseTable:
    config = module.config("config.json")
    # Whether a training changes the table.
    config.ignore(frozenset({"frozen"}))
    config.done()
    shape = Weights(module.path).shape("weight")
    if len(shape) != 1:
        raise SourceError(
            f"{module}: weight has the shape {list(shape)}; it must have a number for each token."
        )
    tokenizer = read_tokenizer(module, vocabulary_size=shape[0])
    if tokenizer.max_tokens in (None, math.inf):
        raise SourceError(
            f"{module} states no limit of tokens: tokenizer_config.json has no model_max_length."
        )
    return SparseTable(
        task="sparse",
        family="sparse-table",
        dimensions=shape[0],
        vocabulary_size=shape[0],
        max_tokens=int(tokenizer.max_tokens or 0),
        prompts=read_prompts(folder, model_type="SparseEncoder", normalized=True),
        tokenizer=without_special_tokens(tokenizer),
        normalized=True,
        weights_folder=module.path,
        precision=Precision.FP32,
    )
