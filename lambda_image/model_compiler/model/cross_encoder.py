"""Reads a cross-encoder, which scores pairs of texts, without its weights.

It is a folder of sentence-transformers' CrossEncoder, a plain `...ForSequenceClassification`, or a
language model that says yes or no after a template with the query and the passage. The truth is
`sentence_transformers/cross_encoder/model.py`, and the class of each family in transformers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import tokenizers

from embedder.core.artifact import ScoringEntry
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.adapter import refuse_adapter
from model_compiler.files.config import ConfigFile
from model_compiler.files.folder import ConfigFolder
from model_compiler.files.weights import Weights
from model_compiler.graph import architectures
from model_compiler.graph.architectures import Architecture
from model_compiler.graph.architectures.bert import BertConfig
from model_compiler.graph.architectures.llama import LlamaConfig
from model_compiler.graph.architectures.modernbert import read_modernbert_head
from model_compiler.graph.bases.encoder import Hidden, activate
from model_compiler.graph.bases.family import has_own_code
from model_compiler.graph.bases.post_norm import PostNormConfig
from model_compiler.graph.builder import GraphBuilder, Precision
from model_compiler.graph.quantization import Floats
from model_compiler.model.base import Prompts
from model_compiler.model.compiled import CompiledModel
from model_compiler.model.folder import (
    LANGUAGE_MODEL,
    MODULES_FILE,
    NEXT_TOKEN,
    SCORES,
    SETTINGS_FILE,
    UNPOOLED,
    ModelFolder,
    Module,
    Output,
    read_family,
    read_max_tokens,
    read_named_prompts,
)
from model_compiler.model.modules import (
    EMBEDDING,
    Dense,
    Head,
    LayerNorm,
    Pooling,
    TakenHead,
    read_dense,
    read_layer_norm,
    read_pooling,
)
from model_compiler.tokenizer.file import TokenizerFile, read_tokenizer
from model_compiler.tokenizer.pairs import (
    PairLayout,
    passes_types,
    read_pair_layout,
    read_pair_template,
)

#: The activations of a CrossEncoder, which follow the logits, by their names in its files.
ACTIVATIONS = {
    "torch.nn.modules.activation.Sigmoid": "sigmoid",
    "torch.nn.modules.linear.Identity": "identity",
}
MAX_LABELS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreHead(TakenHead):
    """Pools the tokens of a pair, and takes the vector to logits. Its weights stay in float32."""

    pooling: Pooling
    #: The linear layer before the last, by its name; empty without one.
    dense: str = ""
    dense_bias: bool = True
    #: After it.
    activation: str = "tanh"
    #: The normalization after that; empty without one.
    norm: str = ""
    norm_bias: bool = True
    norm_epsilon: float = 0.0
    #: The last linear layer.
    out: str
    hidden_size: int
    labels: int

    def take(self, weights: Weights) -> Mapping[str, Floats]:
        """Take the head's weights, before the encoder checks that all are used."""
        size = self.hidden_size
        taken: dict[str, Floats] = {}
        for name, shape, has_bias in (
            (self.dense, (size, size), self.dense_bias),
            (self.norm, (size,), self.norm_bias),
            (self.out, (self.labels, size), True),
        ):
            if name:
                taken[f"{name}.weight"] = weights.take(f"{name}.weight", *shape)
            if name and has_bias:
                taken[f"{name}.bias"] = weights.take(f"{name}.bias", shape[0])
        return taken

    def add(
        self, builder: GraphBuilder, hidden: Hidden, taken: Mapping[str, Floats], *, output: str
    ) -> None:
        """Take the last hidden state to the graph's output, the logits [batch, labels]."""
        op, value = builder.op, self.pooling.add(builder, hidden)

        def shifted(value: str, name: str) -> str:
            product = op.MatMul(value, builder.weight(f"{name}.weight", taken[f"{name}.weight"].T))
            if f"{name}.bias" not in taken:
                return product
            return op.Add(product, builder.weight(f"{name}.bias", taken[f"{name}.bias"]))

        if self.dense:
            value = shifted(value, self.dense)
            value = (
                op.Tanh(value)
                if self.activation == "tanh"
                else activate(builder, value, self.activation)
            )
        if self.norm:
            zeros = np.zeros(self.hidden_size, np.float32)
            value = op.LayerNormalization(
                value,
                builder.weight(f"{self.norm}.weight", taken[f"{self.norm}.weight"]),
                builder.weight(f"{self.norm}.bias", taken.get(f"{self.norm}.bias", zeros)),
                axis=-1,
                epsilon=self.norm_epsilon,
            )
        op.Identity(shifted(value, self.out), output=output)
        builder.output(output, dtype=np.float32, shape=["batch", self.labels])


@dataclass(frozen=True, slots=True, kw_only=True)
class NextTokenHead(ScoreHead):
    """Takes the vector of the last token to a language model's logit of the next one.

    The logit of a second token, if there is one, is subtracted. In the table of a language model's
    head, each token has a row.
    """

    true_token: int
    #: The token whose logit is subtracted; None for one token alone.
    false_token: int | None
    vocabulary_size: int
    #: Whether the head's table is that of the embeddings.
    tied: bool

    def take(self, weights: Weights) -> Mapping[str, Floats]:
        """Take the row, or the difference of the two; see `ScoreHead.take`."""
        name = "lm_head.weight"
        if self.tied:
            copy, name = name, "embed_tokens.weight"
            name = weights.prefix(("", "model."), name) + name
            weights.check_copy(copy, name)
        table = weights.take(name, self.vocabulary_size, self.hidden_size)
        row = table[self.true_token] - (0 if self.false_token is None else table[self.false_token])
        return {f"{self.out}.weight": row[np.newaxis]}


def read_cross_encoder(folder: ModelFolder, precision: Precision = Precision.INT8) -> CompiledModel:
    """Read a cross-encoder's folder, of which the weights are compiled to `precision`."""
    encoder, logit, after = _modules(folder)
    refuse_adapter(encoder)
    config = encoder.config("config.json")
    generates = logit is not None or folder.plain_architecture.endswith(LANGUAGE_MODEL)
    classifier: Head | ScoreHead | None = None
    if after:
        classifier = head_of_modules(config, after)
        labels = numbered_labels(classifier.dimensions)
    else:
        labels = ("LABEL_0",) if generates else read_labels(config)
        classifier = None if generates else read_score_head(config, labels=len(labels))
    activation = stated_activation(folder, config)
    tied = config.boolean("tie_word_embeddings", False) if generates else False
    architecture = architectures.parse(config, remedy="")
    tokenizer = read_tokenizer(encoder, vocabulary_size=architecture.vocabulary_size)
    prompt = read_default_prompt(folder)
    if classifier is None:
        head: Head | ScoreHead = _next_token_head(
            encoder, logit, tokenizer, architecture, tied=tied
        )
        layout = read_pair_template(encoder, tokenizer, instruction=prompt)
    else:
        head = classifier
        layout, architecture = read_pairs(encoder, tokenizer, architecture)
        layout = layout._replace(query_prefix=prompt)
    return scoring_model(
        "rerank",
        ScoringEntry(
            labels=labels,
            activation=activation or ("sigmoid" if len(labels) == 1 else "identity"),
            **layout._asdict(),
            truncation="passage" if generates else "longest_first",
        ),
        encoder=encoder,
        tokenizer=tokenizer,
        architecture=architecture,
        head=head,
        output=UNPOOLED if after else NEXT_TOKEN if generates else SCORES,
        precision=precision,
    )


def scoring_model(
    task: str,
    scoring: ScoringEntry,
    *,
    encoder: ConfigFolder,
    tokenizer: TokenizerFile,
    architecture: Architecture,
    head: Head | TakenHead,
    output: Output,
    precision: Precision,
) -> CompiledModel:
    """Return a model that gives scores; `output` is what its Transformer's file must state."""
    if isinstance(architecture, PostNormConfig):
        architecture = replace(architecture, first_only=head.pooling == Pooling(("cls",)))
    return CompiledModel(
        task=task,
        family=architecture.name,
        dimensions=len(scoring.labels),
        vocabulary_size=architecture.vocabulary_size,
        max_tokens=read_max_tokens(
            encoder, tokenizer, max_positions=architecture.max_positions, output=output
        ),
        prompts=Prompts(texts={}, default=None),
        tokenizer=tokenizer,
        normalized=True,
        encoder=encoder,
        architecture=architecture,
        head=head,
        precision=precision,
        scoring=scoring,
    )


def _modules(folder: ModelFolder) -> tuple[ConfigFolder, ConfigFolder | None, Sequence[Module]]:
    """Return the encoder's folder, that of a LogitScore, and the modules of another head."""
    if not folder.has_modules:
        return folder, None, []
    modules, names = folder.modules, folder.kinds
    if names in (["Transformer"], ["Transformer", "LogitScore"]):
        return modules[0].folder, modules[1].folder if len(modules) > 1 else None, []
    pooled = names[:2] == ["Transformer", "Pooling"] and names[2:][-1:] == ["Dense"]
    if not pooled or set(names[2:]) - {"Dense", "LayerNorm"}:
        raise UnsupportedModelError(
            f"{folder.path / MODULES_FILE} lists {', '.join(names) or 'no modules'}; of a "
            "cross-encoder, the compiler can express a Transformer alone, with a LogitScore, or "
            "with a Pooling, any number of Dense and LayerNorm, and a Dense."
        )
    return modules[0].folder, None, modules[1:]


def head_of_modules(config: ConfigFile, modules: Sequence[Module]) -> Head:
    """Return the head of a Pooling and the modules after it, of which the last gives the scores."""
    _, size = _family(config)
    (_, pooled), *layers = modules
    pooling = read_pooling(pooled, hidden_size=size)
    if not pooling.include_prompt:
        raise UnsupportedModelError(
            f"{pooled}: include_prompt must be true; a cross-encoder's prompt is part of the query."
        )
    width = pooling.dimensions(size)
    read: list[Dense | LayerNorm] = []
    for number, (kind, path) in enumerate(layers, start=1):
        if kind == "LayerNorm":
            read.append(read_layer_norm(path, inputs=width))
            continue
        output = SCORES.name if number == len(layers) else EMBEDDING
        dense = replace(read_dense(path, inputs=width, output=output), exact=True)
        read.append(dense)
        width = dense.outputs
    if width > MAX_LABELS:
        raise UnsupportedModelError(
            f"{layers[-1].folder.path}: out_features is {width}; a cross-encoder may have 1 to "
            f"{MAX_LABELS} labels."
        )
    return Head(pooling=pooling, modules=tuple(read), dimensions=width, scores=True)


def _next_token_head(
    encoder: ConfigFolder,
    logit: ConfigFolder | None,
    tokenizer: TokenizerFile,
    architecture: Architecture,
    *,
    tied: bool,
) -> NextTokenHead:
    """Return the head of a LogitScore, or of a plain folder: the logit of yes minus that of no."""
    if not isinstance(architecture, LlamaConfig) or not architecture.causal:
        raise UnsupportedModelError(
            f"{encoder.path / 'config.json'}: of the language models that are cross-encoders, the "
            f"compiler can express qwen3 with a causal mask; found {architecture.name}."
        )
    library = tokenizers.Tokenizer.from_buffer(tokenizer.data)
    if logit is None:
        true_token, false_token = library.token_to_id("yes"), library.token_to_id("no")
        if true_token is None or false_token is None:
            raise SourceError(
                f"{encoder.path / 'tokenizer.json'}: vocab must be a vocabulary with the tokens "
                "yes and no; found null."
            )
    else:
        config = logit.config("config.json")
        true_token = config.integer("true_token_id", least=0)
        false_token = (
            config.integer("false_token_id", least=0) if config.has("false_token_id") else None
        )
        config.optional("false_token_id")
        config.require("module_input_name", NEXT_TOKEN.name)
        config.done()
        highest = max(true_token, false_token or 0)
        if highest >= architecture.vocabulary_size:
            config.fail("true_token_id", "a token's id, as false_token_id", highest)
    return NextTokenHead(
        pooling=Pooling(("lasttoken",)),
        out="lm_head",
        hidden_size=architecture.hidden_size,
        labels=1,
        true_token=true_token,
        false_token=false_token,
        vocabulary_size=architecture.vocabulary_size,
        tied=tied,
    )


def read_labels(config: ConfigFile) -> tuple[str, ...]:
    """Return the names of the labels, in the order of the logits."""
    names, count = config.optional("id2label"), config.optional("num_labels")
    if names is None:
        number = 2 if count is None else config.integer("num_labels")  # transformers' default
        named = numbered_labels(min(number, MAX_LABELS + 1))
        names = {str(label): name for label, name in enumerate(named)}
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        config.fail("id2label", "an object of strings", names)
    if not 1 <= len(names) <= MAX_LABELS or set(names) != {str(i) for i in range(len(names))}:
        config.fail("id2label", f"names for the numbers from 0, 1 to {MAX_LABELS} of them", names)
    if count not in (None, len(names)):
        config.fail("num_labels", f"the number of labels in id2label, {len(names)}", count)
    return tuple(names[str(label)] for label in range(len(names)))


def numbered_labels(count: int) -> tuple[str, ...]:
    """Return the names that transformers gives labels without any."""
    return tuple(f"LABEL_{label}" for label in range(count))


def stated_activation(folder: ModelFolder, config: ConfigFile) -> str | None:
    """Return a CrossEncoder's activation; of the files that may state it, the first decides."""
    inner = config.optional("sentence_transformers")
    if inner is not None and not isinstance(inner, dict):
        config.fail("sentence_transformers", "an object", inner)
    if unknown := sorted(set(inner or {}) - {"activation_fn", "version"}):
        raise UnsupportedModelError(
            f"{config.path}: sentence_transformers has settings that the compiler does not know: "
            f"{', '.join(unknown)}."
        )
    stated = (
        folder.config(SETTINGS_FILE, optional=True).optional("activation_fn"),
        (inner or {}).get("activation_fn"),
        config.optional("sbert_ce_default_activation_function"),
    )
    activation = next((name for name in stated if name is not None), None)
    if activation is None:
        return None
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise UnsupportedModelError(
            f"{folder}: the activation of the scores must be one of {', '.join(ACTIVATIONS)}; "
            f"found {activation!r}."
        )
    return ACTIVATIONS[activation]


def read_default_prompt(folder: ModelFolder) -> str:
    """Return the text that goes before each query; others must be asked for."""
    config = folder.config(SETTINGS_FILE, optional=True)
    texts, default = read_named_prompts(config)
    config.require("model_type", "CrossEncoder", None)
    # `keep_in_fp32_modules` changes what autocast does, and weights of a head are in float32 here.
    config.ignore(frozenset({"activation_fn", "keep_in_fp32_modules"}))
    config.done(SETTINGS_FILE)
    return "" if default is None else texts[default]


def read_pairs(
    encoder: ConfigFolder, tokenizer: TokenizerFile, architecture: Architecture
) -> tuple[PairLayout, Architecture]:
    """Return the layout of a pair, and the architecture for such pairs."""
    if not isinstance(architecture, PostNormConfig):
        return read_pair_layout(tokenizer, types=False), architecture
    types = architecture.token_types > 1 and passes_types(encoder)
    layout = read_pair_layout(tokenizer, types=types)
    if isinstance(architecture, BertConfig):
        architecture = replace(architecture, pair_types=layout.second_type == 1)
    elif layout.second_type:
        raise UnsupportedModelError(
            f"{encoder.path / 'config.json'}: type_vocab_size must be 0 or 1 for a cross-encoder "
            f"of model_type {architecture.name!r}; found {architecture.token_types}."
        )
    return layout, architecture


_ROBERTA = {"dense": "classifier.dense", "out": "classifier.out_proj"}
#: The parts of each family's head after the first token's vector; see `ScoreHead`.
HEADS = {
    "albert": {"dense": "albert.pooler", "out": "classifier"},
    "bert": {"dense": "bert.pooler.dense", "out": "classifier"},
    "camembert": _ROBERTA,
    "distilbert": {"dense": "pre_classifier", "activation": "relu", "out": "classifier"},
    # transformers' ElectraClassificationHead has GELU, whatever `summary_activation` says.
    "electra": {**_ROBERTA, "activation": "gelu"},
    "gte": {"dense": "gte.pooler.dense", "out": "classifier"},
    "modernbert": {"dense": "head.dense", "norm": "head.norm", "out": "classifier"},
    "new": {"dense": "new.pooler.dense", "out": "classifier"},
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
}


def _family(config: ConfigFile) -> tuple[str, int]:
    """Return the `model_type`, and the width of the encoder's vectors."""
    family = read_family(config, "cross-encoder or classifier", HEADS)
    return family, config.integer("dim" if family == "distilbert" else "hidden_size")


def read_score_head(config: ConfigFile, *, labels: int) -> ScoreHead:
    """Return the head of a plain classifier."""
    family, size = _family(config)
    settings: dict[str, Any] = {"pooling": Pooling(("cls",)), **HEADS[family]}
    if family in {"gte", "new"}:
        names = ("NewForSequenceClassification", "GteForSequenceClassification")
        has_own_code(config, *names, key="AutoModelForSequenceClassification")
    if family == "modernbert":
        pooling = config.string("classifier_pooling", "cls")
        if pooling not in ("cls", "mean"):
            config.fail("classifier_pooling", "cls or mean", pooling)
        settings |= {"pooling": Pooling((pooling,)), **read_modernbert_head(config)}
    return ScoreHead(hidden_size=size, labels=labels, **settings)
