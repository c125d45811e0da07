"""Reads a sparse encoder: its vectors have a weight for each token of a vocabulary.

It is a folder of sentence-transformers' SparseEncoder: a masked language model under a
SpladePooling (Formal et al., 2021, arXiv:2109.10086), or the table of a SparseStaticEmbedding, with
which queries need no model (Geng et al., 2024, arXiv:2411.04403). The truth is
`sentence_transformers/sparse_encoder/modules`, and the class of each family in transformers.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from onnx import TensorProto

from embedder.core.static_session import WEIGHTS_FILE
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.adapter import ADAPTER_FILE, MERGE
from model_compiler.files.config import ConfigFile
from model_compiler.files.weights import Weights
from model_compiler.graph import architectures
from model_compiler.graph.architectures.bert import BertConfig
from model_compiler.graph.builder import GraphBuilder, Precision
from model_compiler.graph.encoder import activate, read_activation
from model_compiler.graph.quantization import Floats, linear
from model_compiler.model.base import INPUTS, OUTPUT, Graph, OwnModel
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.folder import Output, read_max_tokens, read_modules, read_prompts
from model_compiler.model.modules import ALL
from model_compiler.tokenizer.file import read_tokenizer, without_special_tokens

__all__ = ["SparseTable", "SpladeHead", "read_sparse_folder"]

#: What the Transformer module of a sparse encoder gives: a logit for each token of the vocabulary.
LOGITS = Output("fill-mask", "logits", "token_embeddings")
#: How often the logarithm is taken, by the `activation_function` of a SpladePooling.
LOGARITHMS = {"relu": 1, "log1p_relu": 2}
STRATEGIES = ("max", "sum")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names of a family's weights for masked language modeling.

    The table of embeddings is also the matrix to the logits.
    """

    table: str
    dense: str
    norm: str
    bias: str
    #: The layer of which a checkpoint may hold copies of the table and the bias.
    decoder: str


_ROBERTA = Names(
    table="roberta.embeddings.word_embeddings.weight",
    dense="lm_head.dense",
    norm="lm_head.layer_norm",
    bias="lm_head.bias",
    decoder="lm_head.decoder",
)
#: By `model_type`.
NAMES = {
    "bert": Names(
        table="bert.embeddings.word_embeddings.weight",
        dense="cls.predictions.transform.dense",
        norm="cls.predictions.transform.LayerNorm",
        bias="cls.predictions.bias",
        decoder="cls.predictions.decoder",
    ),
    "distilbert": Names(
        table="distilbert.embeddings.word_embeddings.weight",
        dense="vocab_transform",
        norm="vocab_layer_norm",
        bias="vocab_projector.bias",
        decoder="vocab_projector",
    ),
    "camembert": _ROBERTA,
    "modernbert": Names(
        table="model.embeddings.tok_embeddings.weight",
        dense="head.dense",
        norm="head.norm",
        bias="decoder.bias",
        decoder="decoder",
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpladeHead:
    """Takes the hidden state to logits of the vocabulary, and pools their logarithms.

    A weight is log(1 + relu(logit)), pooled over all tokens, special ones too.
    """

    names: Names
    #: Which of the dense layer, the normalization and the logits have a bias.
    biases: tuple[bool, bool, bool] = (True, True, True)
    hidden_size: int
    vocabulary_size: int
    activation: str
    norm_epsilon: float
    #: One of `STRATEGIES`.
    strategy: str
    logarithms: int
    pooling: ClassVar[None] = None

    def take(self, weights: Weights) -> Mapping[str, Floats]:
        """Take the head's weights, before the encoder checks that all are used."""
        names, size = self.names, self.hidden_size
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
        for (part, name, width), there in zip(biases, self.biases, strict=True):
            taken[part] = weights.take(name, width) if there else np.zeros(width, np.float32)
        copies = (("weight", names.table, "decoder"), ("bias", names.bias, "bias"))
        for part, original, name in copies:
            copy = f"{names.decoder}.{part}"
            if copy == original or copy not in weights:
                continue
            # Versions of transformers differ in which of two they take.
            if not np.array_equal(weights.take(copy, *taken[name].shape), taken[name]):
                raise UnsupportedModelError(
                    f"{weights.folder}: {copy} must be equal to {original}, which the model shares."
                )
        return taken

    def add(
        self, builder: GraphBuilder, hidden: str, taken: Mapping[str, Floats], *, output: str
    ) -> None:
        """Take the last hidden state to the graph's output, the weights [batch, vocabulary].

        Dense and normalization stay in float32; the matrix to the logits has the precision.
        """
        op = builder.op
        value = op.MatMul(hidden, builder.weight("head.dense", taken["dense"].T))
        value = op.Add(value, builder.weight("head.dense.bias", taken["dense.bias"]))
        value = op.LayerNormalization(
            activate(builder, value, self.activation),
            builder.weight("head.norm", taken["norm"]),
            builder.weight("head.norm.bias", taken["norm.bias"]),
            axis=-1,
            epsilon=self.norm_epsilon,
        )
        one = builder.constant([1], np.int64)
        there = op.Unsqueeze(ALL, builder.constant([-1], np.int64))
        bias = builder.weight("head.bias", taken["bias"])
        if self.strategy == "max":
            # In the place of padding the first token again, which changes no maximum. The rest is
            # monotonic, so the maximum comes first, and the logits exist once.
            first = op.Slice(value, builder.constant([0], np.int64), one, one)
            value = op.Where(op.Cast(there, to=TensorProto.BOOL), value, first)
            logits = linear(builder, value, taken["decoder"], name="head.decoder")
            logits = op.ReduceMax(logits, one, keepdims=0)
            weight = self._weight(builder, op.Add(logits, bias))
        else:
            logits = linear(builder, value, taken["decoder"], name="head.decoder")
            weight = self._weight(builder, op.Add(logits, bias))
            weight = op.Mul(weight, op.Cast(there, to=TensorProto.DOUBLE))
            weight = op.ReduceSum(weight, one, keepdims=0)
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
class SparseTable(OwnModel):
    """A weight for each token, which a text has for each of its tokens, however often it occurs."""

    #: Holds `model.safetensors`.
    weights_folder: Path

    def check(self) -> None:
        """Read the table; see `Model.check`."""
        self._table()

    def write(self, folder: Path, *, progress: bool = False) -> Graph:  # noqa: ARG002 - one small file
        """Write the table, float32 [vocabulary]; see `Model.write`."""
        table, digest = self._table()
        np.save(folder / WEIGHTS_FILE, table, allow_pickle=False)
        return Graph(
            runtime="numpy",
            file=WEIGHTS_FILE,
            digest=digest,
            source_digest=digest,
            precision=self.precision,
            inputs=INPUTS,
            output=OUTPUT,
            optimization="none",
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
    folder: Path, precision: Precision = Precision.INT8
) -> CompiledModel | SparseTable:
    """Read a sparse encoder's folder, of which the weights are compiled to `precision`.

    A table always stays in float32: it is small.

    Raises:
        SourceError: If a file is missing or wrong.
        UnsupportedModelError: If the compiler cannot express a part of the model.
    """
    modules = read_modules(folder)
    kinds = [kind for kind, _ in modules]
    if kinds == ["SparseStaticEmbedding"]:
        return _read_table(folder, modules[0][1])
    if kinds not in (["Transformer", "SpladePooling"], ["MLMTransformer", "SpladePooling"]):
        raise UnsupportedModelError(
            f"{folder / 'modules.json'} lists {', '.join(kinds) or 'no modules'}; of a sparse "
            "encoder, the compiler can express a Transformer or MLMTransformer with a "
            "SpladePooling, or a SparseStaticEmbedding."
        )
    encoder, pooling = (path for _, path in modules)
    if (encoder / ADAPTER_FILE).exists():
        raise UnsupportedModelError(
            f"{encoder} has an adapter ({ADAPTER_FILE}); the compiler merges one of an embedding "
            f"model. {MERGE}"
        )
    config = ConfigFile(encoder / "config.json")
    config.require("tie_word_embeddings", True)
    family = config.string("model_type")
    if family not in NAMES:
        raise UnsupportedModelError(
            f"{config.path}: the compiler cannot express a sparse encoder of model_type "
            f"{family!r}; it can of {', '.join(sorted(NAMES))}."
        )
    own = _modernbert_head(config) if family == "modernbert" else None
    architecture = architectures.parse(config, remedy="")
    if isinstance(architecture, BertConfig):
        # transformers' RobertaLMHead has GELU, whatever `hidden_act` says.
        activation = "gelu" if NAMES[family] is _ROBERTA else architecture.activation
        own = {"activation": activation, "norm_epsilon": architecture.norm_epsilon}
    assert own is not None  # noqa: S101 - for mypy: the other families of NAMES are BertConfig's
    tokenizer = read_tokenizer(
        encoder / "tokenizer.json", vocabulary_size=architecture.vocabulary_size
    )
    strategy, logarithms = _read_pooling(pooling, architecture.vocabulary_size)
    return CompiledModel(
        task="sparse",
        family=architecture.name,
        dimensions=architecture.vocabulary_size,
        vocabulary_size=architecture.vocabulary_size,
        max_tokens=read_max_tokens(
            encoder, tokenizer, max_positions=architecture.max_positions, output=LOGITS
        ),
        prompts=read_prompts(folder, model_type="SparseEncoder", normalized=True),
        tokenizer=tokenizer,
        normalized=True,
        encoder_folder=encoder,
        architecture=architecture,
        head=SpladeHead(
            names=NAMES[family],
            hidden_size=architecture.hidden_size,
            vocabulary_size=architecture.vocabulary_size,
            strategy=strategy,
            logarithms=logarithms,
            **own,
        ),
        precision=precision,
    )


def _modernbert_head(config: ConfigFile) -> dict[str, Any]:
    """Return what a ModernBERT's settings say of the part before the logits."""
    if not config.has("classifier_activation"):
        config.fail("classifier_activation", "the name of a function", None)
    return {
        "activation": read_activation(config, "classifier_activation"),
        "norm_epsilon": config.number("norm_eps"),
        "biases": (
            config.boolean("classifier_bias", False),
            config.boolean("norm_bias", False),
            config.boolean("decoder_bias", True),
        ),
    }


def _read_pooling(folder: Path, vocabulary_size: int) -> tuple[str, int]:
    """Return the strategy of a SpladePooling, and how often it takes the logarithm."""
    config = ConfigFile(folder / "config.json")
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


def _read_table(folder: Path, module: Path) -> SparseTable:
    config = ConfigFile(module / "config.json")
    # Whether a training changes the table.
    config.ignore(frozenset({"frozen"}))
    config.done()
    shape = Weights(module).shape("weight")
    if len(shape) != 1:
        raise SourceError(
            f"{module}: weight has the shape {list(shape)}; it must have a number for each token."
        )
    tokenizer = read_tokenizer(module / "tokenizer.json", vocabulary_size=shape[0])
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
        weights_folder=module,
        precision=Precision.FP32,
    )
