"""The base of both kinds of model: compiled from weights, or imported from a ready ONNX export."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from embedder.core.artifact import SEGMENTS, ScoringEntry
from model_compiler.graph.builder import Precision
from model_compiler.tokenizer.file import TokenizerFile

GRAPH_FILE = "model.onnx"
#: The same graph, with the operators of `graph.operators`.
OPERATOR_FILE = "model.operators.onnx"
#: The inputs that the embedder feeds, int64 [batch, tokens].
INPUTS = ("input_ids", "attention_mask")
#: Inputs of a model that treats two parts of its input differently. A reranker's `segments` are 0
#: for padding, else the token type plus 1. For a pooling without the prompt, they are 1 for a token
#: that is pooled and 2 for one that is not.
SEGMENT_INPUTS = ("input_ids", SEGMENTS)
OUTPUT = "sentence_embedding"


@dataclass(frozen=True, slots=True)
class Prompts:
    """The prompts of a model by name, and the name of the default prompt."""

    texts: dict[str, str]
    default: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A graph that was written to an artifact's folder."""

    #: What runs it, and its files; see `embedder.core.artifact.GraphEntry`.
    runtime: str = "onnxruntime"
    file: str
    operator_file: str | None = None
    #: A hash of the computation; see `builder.graph_digest`.
    digest: bytes
    #: A hash of the model's own weights, before quantization.
    source_digest: bytes
    #: `fp32`, `int8`, or the name of the export.
    precision: str
    inputs: Sequence[str] = INPUTS
    output: str = OUTPUT
    #: `none`, or `extended` if ONNX Runtime optimizes the graph when it loads it.
    optimization: str = "none"
    #: Approximate multiply-adds of weights per token.
    multiply_adds: int
    #: The outputs of the encoder's layers; none of an export.
    layers: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerModel(ABC):
    """A model as its folder describes it."""

    #: The architecture, such as `bert`; `onnx` for an export.
    family: str
    #: Length of an embedding; number of labels; size of a sparse encoder's vocabulary.
    dimensions: int
    #: Number of rows of the embedding table.
    vocabulary_size: int
    #: The token limit, including special tokens.
    max_tokens: int
    prompts: Prompts
    tokenizer: TokenizerFile
    #: Whether the model's own vectors have length 1.
    normalized: bool
    #: The limit in characters; None for one that follows from the limit of tokens.
    max_characters: int | None = None
    #: `embed`, `rerank`, `sparse` or `classify`; see `embedder.core.artifact.Manifest`.
    task: str = "embed"
    #: The scores, and how a pair is taken; None of a model that gives vectors.
    scoring: ScoringEntry | None = None

    @property
    @abstractmethod
    def reference(self) -> "CompilerModel | None":
        """The model in full precision, possibly this one; None without one."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The model in an error message."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """A sentence for the user of a model that missed a threshold."""

    @abstractmethod
    def check(self) -> None:
        """Read the weights as `write` does, and write nothing."""

    @abstractmethod
    def write(self, folder: Path, *, progress: bool = False) -> Graph:
        """Write the graph and its weights to a folder; raises an OSError if the disk is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnModel(CompilerModel):
    """A model that the compiler makes from its weights, in one of its precisions."""

    precision: Precision

    @property
    def reference(self) -> Self:
        """The same model in fp32."""
        return self if self.precision is Precision.FP32 else replace(self, precision=Precision.FP32)

    @property
    def label(self) -> str:
        """The model in an error message."""
        return f"the model compiled to {self.precision}"

    @property
    def remedy(self) -> str:
        """A sentence for the user of a model that missed a threshold."""
        alternative = "" if self.precision is Precision.FP32 else "use --precision fp32, or "
        return f"{alternative}add --unmeasured to accept these vectors.".capitalize()
