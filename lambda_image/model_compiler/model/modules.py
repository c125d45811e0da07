"""The modules after the encoder of a sentence-transformers folder: pooling, dense, normalization.

Each is read from its own folder into a frozen value, which adds itself to the graph. Settings that
the graph cannot express are rejected.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from onnx import TensorProto

from embedder.core.artifact import SEGMENTS
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.files.folder import ConfigFolder
from model_compiler.files.weights import StoredTensor, Weights
from model_compiler.graph.bases.encoder import Hidden
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Floats, linear

#: The mask of all tokens of a text.
ALL = "attention_mask"
#: The vector of a text, as the modules of sentence-transformers name it.
EMBEDDING = "sentence_embedding"

#: The smallest divisor of a vector, as in torch's `normalize`.
SMALLEST_LENGTH = 1e-12
#: What torch's LayerNorm adds to the variance by default.
LAYER_NORM_EPSILON = 1e-5

#: The pooling modes by their keys in older folders, in the order in which sentence-transformers
#: concatenates them.
LEGACY_KEYS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}

#: The activation classes of a Dense module with their operators; None for the identity.
ACTIVATIONS = {
    "torch.nn.modules.linear.Identity": None,
    "torch.nn.modules.activation.GELU": "Gelu",
    "torch.nn.modules.activation.ReLU": "Relu",
    "torch.nn.modules.activation.Sigmoid": "Sigmoid",
    "torch.nn.modules.activation.Tanh": "Tanh",
}


@dataclass(frozen=True, slots=True)
class Pooling:
    """Combines the vectors of a text's tokens into one; several modes are concatenated."""

    modes: tuple[str, ...]
    #: Whether the tokens of a prompt are pooled too.
    include_prompt: bool = True

    def dimensions(self, hidden_size: int) -> int:
        """Return the number of dimensions of the pooled vector."""
        return hidden_size * len(self.modes)

    def add(self, builder: GraphBuilder, hidden: Hidden) -> str:
        """Pool the tokens under a mask into float32 [batch, dimensions].

        Where it is possible, `Hidden.finish` follows.
        """
        mask = ALL
        if not self.include_prompt:
            same = builder.op.Equal(SEGMENTS, builder.constant(1, np.int64))
            mask = builder.op.Cast(same, to=TensorProto.INT64)
        pooled = [
            hidden.finish(_POOLINGS[mode](builder, hidden.value, mask))
            if mode in _MEANS
            else _POOLINGS[mode](builder, hidden.complete(), mask)
            for mode in self.modes
        ]
        return pooled[0] if len(pooled) == 1 else builder.op.Concat(*pooled, axis=-1)


@dataclass(frozen=True, slots=True)
class Dense:
    """A linear layer on the pooled vector, with its activation."""

    folder: Path
    inputs: int
    outputs: int
    bias: bool
    activation: str
    #: Whether a Normalize comes before it.
    normalizes: bool = False
    #: Whether its weight stays in float32 for every precision.
    exact: bool = False
    #: Its weights, if they are not in its folder's own file.
    tensors: Mapping[str, StoredTensor] | None = None

    def joins(self, after: "Dense | LayerNorm | None") -> bool:
        """Return whether this module and the one after it are one matrix, which is not larger."""
        return (
            isinstance(after, Dense)
            and not (self.bias or self.normalizes or self.exact or ACTIVATIONS[self.activation])
            and not (after.normalizes or after.exact)
            and self.inputs * after.outputs <= self.outputs * (self.inputs + after.outputs)
        )

    def matrix(self, weights: Weights) -> Floats:
        """Take the weight, float32 [outputs, inputs]."""
        return weights.take("linear.weight", self.outputs, self.inputs)

    def add(
        self,
        builder: GraphBuilder,
        value: str,
        weights: Weights,
        *,
        name: str,
        before: Floats | None = None,
    ) -> str:
        """Take float32 [batch, inputs] to [batch, outputs]; `name` is for the weights.

        `before` is the matrix of a module before it that was not added.
        """
        if self.normalizes:
            value = normalize(builder, value)
        weight = self.matrix(weights)
        if before is not None:
            weight = (weight.astype(np.float64) @ before).astype(np.float32)
        if self.exact:
            value = builder.op.MatMul(value, builder.weight(name, weight.T))
        else:
            value = linear(builder, value, weight, name=name)
        if self.bias:
            bias = builder.weight(f"{name}.bias", weights.take("linear.bias", self.outputs))
            value = builder.op.Add(value, bias)
        weights.done()
        operator = ACTIVATIONS[self.activation]
        return builder.node(operator, value) if operator else value


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """Normalizes the pooled vector by its mean and its variance, in float32."""

    folder: Path
    width: int

    def add(self, builder: GraphBuilder, value: str, weights: Weights, *, name: str) -> str:
        """Take float32 [batch, width] to the same shape; `name` is for the weights."""
        value = builder.op.LayerNormalization(
            value,
            builder.weight(name, weights.take("norm.weight", self.width)),
            builder.weight(f"{name}.bias", weights.take("norm.bias", self.width)),
            axis=-1,
            epsilon=LAYER_NORM_EPSILON,
        )
        weights.done()
        return value


@dataclass(frozen=True, slots=True)
class Head:
    """The modules after the encoder."""

    #: None if the encoder itself returns one vector per text.
    pooling: Pooling | None
    #: Those with weights, each in its own folder.
    modules: tuple[Dense | LayerNorm, ...]
    #: Length of the embedding, or number of labels.
    dimensions: int
    #: Whether the last module is a Normalize.
    normalized: bool = False
    #: Whether the vector is of a cross-encoder's logits, of which the length matters.
    scores: bool = False

    def add(
        self, builder: GraphBuilder, hidden: Hidden, opened: Sequence[Weights], *, output: str
    ) -> None:
        """Take the last hidden state to the graph's output, with length 1 if it is an embedding.

        `opened` are the weights of the modules.
        """
        value = self.pooling.add(builder, hidden) if self.pooling else hidden.complete()
        before: Floats | None = None
        for number, (module, weights) in enumerate(zip(self.modules, opened, strict=True)):
            after = next(iter(self.modules[number + 1 :]), None)
            # Not the folder's name, which another module or a tensor may have as well.
            name = f"dense.{number}"
            if isinstance(module, LayerNorm):
                value = module.add(builder, value, weights, name=name)
            elif builder.int8 and before is None and module.joins(after):
                before = module.matrix(weights)
                weights.done()
            else:
                value = module.add(builder, value, weights, name=name, before=before)
                before = None
        if self.scores:
            builder.op.Identity(value, output=output)
        else:
            normalize(builder, value, output=output)
        builder.output(output, dtype=np.float32, shape=["batch", self.dimensions])


class TakenHead(ABC):
    """A part after the encoder, with weights among the encoder's own."""

    #: How tokens are pooled; None if the head does it by itself.
    pooling: Pooling | None
    #: The file with its weights, next to the encoder's; empty if they have one file.
    file: ClassVar[str] = ""

    @abstractmethod
    def take(self, weights: Weights) -> Mapping[str, Floats]:
        """Take the head's weights, before the encoder checks that all are used."""

    @abstractmethod
    def add(
        self, builder: GraphBuilder, hidden: Hidden, taken: Mapping[str, Floats], *, output: str
    ) -> None:
        """Take the last hidden state to the graph's output."""


def normalize(builder: GraphBuilder, value: str, *, output: str | None = None) -> str:
    """Divide each row of float32 [batch, width] by its length."""
    # Not ReduceL2: these operators are the same in every opset since 13, as an export may have.
    total = builder.op.ReduceSum(builder.op.Mul(value, value), builder.int64(-1), keepdims=1)
    length = builder.op.Sqrt(total)
    length = builder.op.Max(length, builder.constant(SMALLEST_LENGTH, np.float32))
    return builder.op.Div(value, length, output=output)


def read_pooling(folder: ConfigFolder, *, hidden_size: int) -> Pooling:
    """Read a Pooling module, of either generation of its configuration."""
    config = folder.config("config.json")
    width_key = (
        "embedding_dimension" if config.has("embedding_dimension") else "word_embedding_dimension"
    )
    width = config.integer(width_key)
    if width != hidden_size:
        raise SourceError(
            f"{config.path}: {width_key} is {width}; the encoder's vectors have {hidden_size}."
        )
    legacy = tuple(
        mode for key, mode in LEGACY_KEYS.items() if config.has(key) and config.boolean(key)
    )
    config.ignore(frozenset(LEGACY_KEYS))
    modern = config.optional("pooling_mode")
    named = [modern] if isinstance(modern, str) else modern
    if named is not None and not (
        isinstance(named, list)
        and len(named) <= len(_POOLINGS)
        and all(isinstance(mode, str) for mode in named)
    ):
        config.fail("pooling_mode", f"a string or a list of up to {len(_POOLINGS)} strings", modern)
    modes = tuple(named or legacy or ("mean",))
    unknown = [mode for mode in modes if mode not in _POOLINGS]
    if unknown:
        raise UnsupportedModelError(
            f"{config.path}: pooling mode {unknown[0]!r} is not one that the compiler knows; "
            f"it knows {', '.join(_POOLINGS)}."
        )
    include_prompt = config.boolean("include_prompt", True)
    config.done()
    # The last token is never part of the prompt.
    return Pooling(modes=modes, include_prompt=include_prompt or modes == ("lasttoken",))


def read_dense(folder: ConfigFolder, *, inputs: int, output: str = EMBEDDING) -> Dense:
    """Read a Dense module, of which the output must have the name `output`."""
    config = folder.config("config.json")
    dense = Dense(
        folder=folder.path,
        inputs=config.integer("in_features"),
        outputs=config.integer("out_features"),
        bias=config.boolean("bias", True),
        activation=config.string("activation_function", "torch.nn.modules.activation.Tanh"),
    )
    _require_names(config, output)
    config.require("use_residual", False, None)
    config.done()
    if dense.activation not in ACTIVATIONS:
        raise UnsupportedModelError(
            f"{config.path}: activation_function {dense.activation!r} is not one that the compiler "
            f"knows; it knows {', '.join(ACTIVATIONS)}."
        )
    if dense.inputs != inputs:
        raise SourceError(
            f"{config.path}: in_features is {dense.inputs}; the previous module returns {inputs}."
        )
    return dense


def read_normalize(folder: ConfigFolder) -> None:
    """Check a Normalize module, for which older folders have no file."""
    config = folder.config("config.json", optional=True)
    _require_names(config)
    _done(config)


def read_layer_norm(folder: ConfigFolder, *, inputs: int) -> LayerNorm:
    """Read a LayerNorm module."""
    config = folder.config("config.json")
    width = config.integer("dimension")
    config.done()
    if width != inputs:
        raise SourceError(
            f"{config.path}: dimension is {width}; the previous module returns {inputs}."
        )
    return LayerNorm(folder.path, width)


def read_dropout(folder: ConfigFolder) -> None:
    """Check a Dropout module, which does nothing after the training."""
    config = folder.config("config.json", optional=True)
    config.ignore(frozenset({"dropout"}))
    _done(config)


def _done(config: ConfigFile) -> None:
    """Check a module's file, unless it is the encoder's, of which the module takes its own keys."""
    if not config.has("model_type"):
        config.done()


def _require_names(config: ConfigFile, output: str = EMBEDDING) -> None:
    """Check which value a module reads and writes; the default of both is the embedding."""
    config.require("module_input_name", EMBEDDING, None)
    if output != EMBEDDING and config.optional("module_output_name") is None:
        config.fail("module_output_name", output, None)
    config.require("module_output_name", output, None)


def _float(builder: GraphBuilder, mask: str) -> str:
    """Return a mask as float32 [batch, tokens]."""
    return builder.op.Cast(mask, to=TensorProto.FLOAT)


def _weighted_sum(builder: GraphBuilder, hidden: str, weights: str) -> str:
    """Sum float32 [batch, tokens, width] with weights [batch, tokens] into [batch, width]."""
    axis = builder.int64(1)
    rows = builder.op.MatMul(builder.op.Unsqueeze(weights, axis), hidden)
    return builder.op.Squeeze(rows, axis)


def _total(builder: GraphBuilder, weights: str) -> str:
    return builder.op.ReduceSum(weights, builder.int64(1), keepdims=1)


def _mean(builder: GraphBuilder, hidden: str, mask: str) -> str:
    weights = _float(builder, mask)
    return builder.op.Div(_weighted_sum(builder, hidden, weights), _total(builder, weights))


def _mean_sqrt(builder: GraphBuilder, hidden: str, mask: str) -> str:
    weights = _float(builder, mask)
    root = builder.op.Sqrt(_total(builder, weights))
    return builder.op.Div(_weighted_sum(builder, hidden, weights), root)


def _weighted_mean(builder: GraphBuilder, hidden: str, mask: str) -> str:
    """Weight each token by its position, counted from 1; the prompt counts, pooled or not."""
    pooled = _float(builder, mask)
    counted = pooled if mask == ALL else _float(builder, ALL)
    weights = builder.op.Mul(pooled, builder.op.CumSum(counted, builder.constant(1, np.int64)))
    return builder.op.Div(_weighted_sum(builder, hidden, weights), _total(builder, weights))


def _cls(builder: GraphBuilder, hidden: str, mask: str) -> str:
    """Select each text's first token that is pooled."""
    if mask == ALL:
        return builder.op.Gather(hidden, builder.constant(0, np.int64), axis=1)
    first_pooled = builder.op.ArgMax(_float(builder, mask), axis=1, keepdims=1)
    return builder.op.GatherND(hidden, first_pooled, batch_dims=1)


def _max(builder: GraphBuilder, hidden: str, mask: str) -> str:
    axis = builder.int64(-1)
    masked = builder.op.Where(
        builder.op.Unsqueeze(builder.op.Cast(mask, to=TensorProto.BOOL), axis),
        hidden,
        builder.constant(np.finfo(np.float32).min, np.float32),
    )
    return builder.op.ReduceMax(masked, builder.int64(1), keepdims=0)


def _last_token(builder: GraphBuilder, hidden: str, _: str) -> str:
    """Select each text's last token; padding is on the right."""
    last_index = builder.op.Sub(_total(builder, ALL), builder.int64(1))
    return builder.op.GatherND(hidden, last_index, batch_dims=1)


#: Functions of the modes: of the graph, the last hidden state and the mask of pooled tokens.
_POOLINGS: dict[str, Callable[[GraphBuilder, str, str], str]] = {
    "cls": _cls,
    "max": _max,
    "mean": _mean,
    "mean_sqrt_len_tokens": _mean_sqrt,
    "weightedmean": _weighted_mean,
    "lasttoken": _last_token,
}
#: Those with shares of tokens that have the sum 1.
_MEANS = frozenset({"cls", "mean", "weightedmean", "lasttoken"})
