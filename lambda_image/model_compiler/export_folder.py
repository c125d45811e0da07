"""Reads a folder with a ready ONNX export of an embedding model, without its weights.

Such a folder has `model.onnx`, or `onnx/model.onnx` and its quantized siblings, as the ecosystem's
exporters write them, the model's `config.json` and `tokenizer.json`. Where the graph ends in the
last hidden state, the folder's own pooling and Dense modules say what follows.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, ValueInfoProto

from model_compiler import architectures
from model_compiler.config_file import ConfigFile, require_file
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.export_graph import foreign_operators, is_quantized, tensors
from model_compiler.export_names import Choice, choose
from model_compiler.model_folder import (
    Head,
    Prompts,
    encoder_folder_of,
    is_normalized,
    is_pooled,
    read_head,
    read_max_tokens,
    read_prompts,
)
from model_compiler.quantization import Precision
from model_compiler.tokenizer_file import TokenizerFile, read_tokenizer

__all__ = ["ExportFolder", "find_export", "read_export_folder", "why_not_compiled"]

INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
#: Names of outputs that are embeddings, last hidden states, or BERT's own pooling.
SENTENCES = ("sentence_embedding", "dense_vecs")
HIDDEN = ("last_hidden_state", "token_embeddings")
POOLER = "pooler_output"
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)

#: Families that count positions from one past the id of the padding token, as transformers'
#: `create_position_ids_from_input_ids` does. So they have that many positions fewer.
COUNTED_FROM_PADDING = frozenset(
    {
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
    }
)


@dataclass(frozen=True, slots=True)
class ExportFolder:
    """An export, as its folder describes it."""

    path: Path
    graph: ModelProto
    #: The output that is taken: the embedding, or what the head makes it of.
    output: str
    #: How wide that output is.
    width: int
    #: What follows an output that is not the embedding.
    head: Head | None
    vocabulary_size: int
    #: The position id of a text's first token.
    first_position: int
    max_tokens: int
    prompts: Prompts
    tokenizer: TokenizerFile
    #: Whether the model's own vectors have length 1.
    normalized: bool

    @property
    def family(self) -> str:
        """What stands for the architecture, which an export does not say."""
        return "onnx"

    @property
    def dimension(self) -> int:
        """The width of the embedding."""
        return self.head.dimension if self.head else self.width

    @property
    def quantized(self) -> bool:
        """Whether the graph computes with quantized weights, whatever its name says."""
        return is_quantized(self.graph)

    @property
    def weight_files(self) -> list[Path]:
        """The files beside the graph that hold its weights.

        Raises:
            SourceError: if one is missing or shorter than the graph says, or is somewhere else.
        """
        ends: dict[str, int] = {}
        for tensor in tensors(self.graph):
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if "location" in entries:
                name = entries["location"]
                end = _number(entries.get("offset")) + _number(entries.get("length"))
                ends[name] = max(end, ends.get(name, 0))
        for name, end in ends.items():
            if Path(name).name != name or name == ".." or "\0" in name:
                raise SourceError(f"{self.path} keeps weights outside its own folder: {name!r}.")
            file = self.path.parent / name
            if not file.is_file():
                raise SourceError(
                    f"{file} is missing, in which {self.path.name} keeps its weights."
                )
            if file.stat().st_size < end:
                raise SourceError(
                    f"{file} is cut short: it has {file.stat().st_size} bytes, and "
                    f"{self.path.name} keeps weights in it up to byte {end}."
                )
        return [self.path.parent / name for name in sorted(ends)]


def find_export(folder: Path, precision: Precision | None) -> Choice | None:
    """Return the export that is taken; none where the folder has weights to compile, or no export.

    Raises:
        SourceError: if no export has the precision that was asked for.
    """
    files = [
        path.relative_to(folder).as_posix()
        for path in (*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx"))
        if path.is_file()
    ]
    encoders = [folder, *folder.glob("0_*")]
    has_weights = any(any(encoder.glob("*.safetensors*")) for encoder in encoders)
    if not files or (has_weights and why_not_compiled(folder) is None):
        return None
    return choose(files, precision)


def why_not_compiled(folder: Path) -> str | None:
    """Say why the compiler cannot express a folder's encoder; None where it can.

    A configuration that is missing or damaged is no reason: the error about it is more useful.
    """
    try:
        architectures.parse(ConfigFile(_encoder_folder(folder) / "config.json"))
    except UnsupportedModelError as error:
        # The manifest must not depend on where the folder is.
        return str(error).replace(f"{folder}{os.sep}", "")
    except SourceError:
        return None
    return None


def read_export_folder(folder: Path, path: Path) -> ExportFolder:
    """Read the folder around the export at `path`.

    Raises:
        SourceError: if a file is missing or wrong.
        UnsupportedModelError: if the graph has inputs or outputs that the embedder cannot serve.
    """
    graph = _load(path)
    _check_inputs(path, graph)
    has_modules = (folder / "modules.json").exists()
    pooled = has_modules and is_pooled(folder)
    output = _output(path, graph, pooled=pooled)
    encoder = _encoder_folder(folder)
    config = ConfigFile(encoder / "config.json")
    rows = config.integer("vocab_size")
    tokenizer = read_tokenizer(encoder / "tokenizer.json", vocabulary_size=rows)
    width = _width(output, config)
    head = None
    if output.name not in SENTENCES:
        if not has_modules:
            raise SourceError(
                f"{path} gives {output.name} and no {SENTENCES[0]}, and {folder} has no "
                "modules.json that says how its tokens are pooled."
            )
        head = read_head(folder, hidden_size=width)
    normalized = has_modules and is_normalized(folder)
    first = _first_position(config)
    return ExportFolder(
        path=path,
        graph=graph,
        output=output.name,
        width=width,
        head=head,
        vocabulary_size=rows,
        first_position=first,
        max_tokens=read_max_tokens(
            encoder, tokenizer, max_positions=_positions(config, first), pooled=pooled
        ),
        prompts=read_prompts(folder, normalized=normalized),
        tokenizer=tokenizer,
        normalized=normalized,
    )


def _encoder_folder(folder: Path) -> Path:
    return encoder_folder_of(folder) if (folder / "modules.json").exists() else folder


def _load(path: Path) -> ModelProto:
    require_file(path)
    try:
        graph = onnx.load(path, load_external_data=False)
    except DecodeError as error:
        raise SourceError(f"{path} is cut short or no ONNX file: {error}.") from error
    if not graph.graph.node:
        raise SourceError(f"{path} is no ONNX graph: it has no nodes.")
    foreign = foreign_operators(graph)
    if foreign:
        raise UnsupportedModelError(
            f"{path} needs operators that ONNX Runtime does not have: {', '.join(foreign[:5])}."
        )
    return graph


def _check_inputs(path: Path, graph: ModelProto) -> None:
    weights = {tensor.name for tensor in graph.graph.initializer}
    inputs = [entry for entry in graph.graph.input if entry.name not in weights]
    names = [entry.name for entry in inputs]
    if set(names) - set(INPUTS) or not {"input_ids", "attention_mask"} <= set(names):
        raise UnsupportedModelError(
            f"{path} has the inputs {', '.join(names)}; the embedder can give input_ids and "
            "attention_mask, token_type_ids of zeros, and position_ids."
        )
    for entry in inputs:
        kind = entry.type.tensor_type.elem_type
        if kind not in {TensorProto.INT64, TensorProto.INT32}:
            raise UnsupportedModelError(
                f"{path}: the input {entry.name} is of type {TensorProto.DataType.Name(kind)}; "
                "the embedder gives INT64 or INT32."
            )
        fixed = [dim.dim_value for dim in entry.type.tensor_type.shape.dim if dim.dim_value]
        if fixed:
            raise UnsupportedModelError(
                f"{path}: the input {entry.name} has a fixed size of {fixed[0]}; the embedder "
                "gives batches of any size and texts of any length. Export it with dynamic axes."
            )


def _output(path: Path, graph: ModelProto, *, pooled: bool) -> ValueInfoProto:
    """Choose the output, and check its type and its number of dimensions."""
    outputs: dict[str, ValueInfoProto] = {entry.name: entry for entry in graph.graph.output}
    wanted = (*SENTENCES, POOLER) if pooled else (*SENTENCES, *HIDDEN)
    name = next((name for name in wanted if name in outputs), None)
    if name is None:
        hint = (
            f" {POOLER} is taken where sentence_bert_config.json names it as method_output_name."
            if POOLER in outputs and not pooled
            else ""
        )
        raise UnsupportedModelError(
            f"{path} has the outputs {', '.join(outputs)}; one must be "
            f"{', '.join(wanted[:-1])} or {wanted[-1]}.{hint}"
        )
    tensor = outputs[name].type.tensor_type
    if tensor.elem_type not in FLOATS:
        kind = TensorProto.DataType.Name(tensor.elem_type)
        raise UnsupportedModelError(f"{path}: the output {name} is of type {kind}, not of floats.")
    rank, needed = len(tensor.shape.dim), 3 if name in HIDDEN else 2
    if tensor.HasField("shape") and rank != needed:
        raise UnsupportedModelError(
            f"{path}: the output {name} has {rank} dimensions; it must have {needed}."
        )
    return outputs[name]


def _width(output: ValueInfoProto, config: ConfigFile) -> int:
    """Return the width of the output, which the graph states, or else `hidden_size`."""
    dimensions = output.type.tensor_type.shape.dim
    if dimensions and dimensions[-1].dim_value:
        return int(dimensions[-1].dim_value)
    return config.integer("hidden_size")


def _first_position(config: ConfigFile) -> int:
    padding = config.optional("pad_token_id")
    if config.optional("model_type") not in tuple(COUNTED_FROM_PADDING):
        return 0
    return (padding if type(padding) is int and padding >= 0 else 1) + 1


def _positions(config: ConfigFile, first: int) -> int | None:
    """Return how many tokens the model has positions for; None where its file does not say."""
    for key in ("max_position_embeddings", "n_positions"):
        if config.has(key):
            return max(1, config.integer(key) - first)
    return None


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 20 else 0
