"""Reads a folder with a ready ONNX export of an embedding model, without its weights.

Such a folder has `model.onnx`, or `onnx/model.onnx` and quantized versions, as the common exporters
write them, with the model's `config.json` and `tokenizer.json`. If the graph ends in the last
hidden state, the folder's pooling and Dense modules are appended.

The precision of each of several exports is in its name, as optimum and sentence-transformers
(https://sbert.net/docs/sentence_transformer/usage/efficiency.html) and repositories for
transformers.js (https://huggingface.co/docs/transformers.js/guides/dtypes) have it.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path, PurePosixPath

from onnx import ModelProto, TensorProto, ValueInfoProto

from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.files.config import ConfigFile
from model_compiler.files.export_weights import load_export
from model_compiler.graph.architectures.bert import COUNTED_FROM_PADDING
from model_compiler.graph.builder import Precision
from model_compiler.model.folder import (
    POOLED,
    UNPOOLED,
    ModelFolder,
    read_head,
    read_max_tokens,
    read_prompts,
)
from model_compiler.model.onnx_import import ImportedModel, foreign_operators
from model_compiler.tokenizer.file import read_tokenizer


class ExportPrecision(StrEnum):
    """The precision of an export."""

    FULL = "full precision"
    HALF = "half precision"
    EIGHT = "8 bits"
    FOUR = "4 bits"


#: Suffixes of `model` in a file's name, in order of preference. O1 to O3 are optimum's levels of
#: optimization; O4 also converts to float16. The image runs on ARM64, so its quantization is first.
NAMES = {
    ExportPrecision.FULL: ("", "_optimized", "_O1", "_O2", "_O3"),
    ExportPrecision.HALF: ("_fp16", "_float16", "_O4"),
    ExportPrecision.EIGHT: (
        "_qint8_arm64",
        "_quantized",
        "_int8",
        "_uint8",
        "_qint8",
        "_qint8_.+",
        "_quint8",
        "_quint8_.+",
    ),
    ExportPrecision.FOUR: ("_q4", "_q4f16", "_bnb4", "_int4", "_uint4"),
}
#: Folders in which exports are looked for.
FOLDERS = ("onnx", ".")

#: The order of preference, by the requested precision.
ORDERS = {
    None: tuple(ExportPrecision),
    Precision.INT8: (
        ExportPrecision.EIGHT,
        ExportPrecision.FULL,
        ExportPrecision.HALF,
        ExportPrecision.FOUR,
    ),
    Precision.FP32: (ExportPrecision.FULL, ExportPrecision.HALF),
}


@dataclass(frozen=True, slots=True)
class ExportChoice:
    """An export, by its path in the model's folder."""

    name: str
    precision: ExportPrecision
    #: The full-precision export to compare with; None for a full-precision export or without one.
    reference: str | None


def choose(files: Collection[str], precision: Precision | None) -> ExportChoice | None:
    """Select an export among the files of a model's folder; None if there are no exports.

    Without a precision, full precision is preferred.
    """
    exports = {own: name for own in ExportPrecision if (name := _preferred(files, own))}
    if not exports:
        return None
    for own in ORDERS[precision]:
        if own in exports:
            full = exports.get(ExportPrecision.FULL)
            return ExportChoice(exports[own], own, None if exports[own] == full else full)
    raise SourceError(
        f"The model's ready exports are quantized ({', '.join(exports.values())}), and fp32 was "
        "requested. Request int8, or no precision, to use one of them."
    )


def _preferred(files: Collection[str], precision: ExportPrecision) -> str | None:
    """Return the export of a precision with the first of its names."""
    for pattern in NAMES[precision]:
        for folder in FOLDERS:
            for name in sorted(files):
                path = PurePosixPath(name)
                if str(path.parent) == folder and re.fullmatch(rf"model{pattern}\.onnx", path.name):
                    return name
    return None


INPUTS = ("input_ids", "attention_mask", "token_type_ids", "position_ids")
#: Names of outputs that are embeddings, last hidden states, or BERT's own pooling.
SENTENCES = ("sentence_embedding", "dense_vecs")
HIDDEN = ("last_hidden_state", "token_embeddings")
POOLER = "pooler_output"
FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)


def read_export(folder: ModelFolder, choice: ExportChoice) -> ImportedModel:
    """Read the chosen export, with the full-precision one that it can be compared with."""
    model = _read(folder, choice.name)
    reference = _read(folder, choice.reference) if choice.reference else None
    if reference is None or reference.quantized:
        return model
    return replace(model, reference=reference)


def _read(folder: ModelFolder, name: str) -> ImportedModel:
    path = folder.path / name
    graph = load_export(path)
    if not graph.graph.node:
        raise SourceError(f"{path} is not an ONNX graph: it has no nodes.")
    if foreign := foreign_operators(graph):
        raise UnsupportedModelError(
            f"{path} needs operators that ONNX Runtime does not have: {', '.join(foreign[:5])}."
        )
    _check_inputs(path, graph)
    pooled = folder.has_modules and folder.is_pooled
    output = _output(path, graph, pooled=pooled)
    config = folder.encoder.config("config.json")
    rows = config.integer("vocab_size")
    tokenizer = read_tokenizer(folder.encoder, vocabulary_size=rows)
    width = _width(output, config)
    head = None
    if output.name not in SENTENCES:
        if not folder.has_modules:
            raise SourceError(
                f"{path} has the output {output.name} but not {SENTENCES[0]}, and {folder} has no "
                "modules.json that defines how its tokens are pooled."
            )
        head = read_head(folder, hidden_size=width)
        if head.pooling and not head.pooling.include_prompt:
            raise UnsupportedModelError(
                f"{folder}: include_prompt is false; the compiler can leave a prompt out of the "
                "pooling of a model that it compiles from its weights, and not of an export."
            )
    normalized = folder.has_modules and folder.is_normalized
    first_position = _first_position(config)
    return ImportedModel(
        family="onnx",
        dimensions=head.dimensions if head else width,
        vocabulary_size=rows,
        max_tokens=read_max_tokens(
            folder.encoder,
            tokenizer,
            max_positions=_positions(config, first_position),
            output=POOLED if pooled else UNPOOLED,
        ),
        prompts=read_prompts(folder, normalized=normalized),
        tokenizer=tokenizer,
        normalized=normalized,
        path=path,
        graph=graph,
        output=output.name,
        width=width,
        head=head,
        first_position=first_position,
    )


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
        element_type = entry.type.tensor_type.elem_type
        if element_type not in {TensorProto.INT64, TensorProto.INT32}:
            raise UnsupportedModelError(
                f"{path}: the input {entry.name} is of type "
                f"{TensorProto.DataType.Name(element_type)}; the embedder gives INT64 or INT32."
            )
        if fixed := [dim.dim_value for dim in entry.type.tensor_type.shape.dim if dim.dim_value]:
            raise UnsupportedModelError(
                f"{path}: the input {entry.name} has a fixed size of {fixed[0]}; the embedder "
                "gives batches of any size and texts of any length. Export it with dynamic axes."
            )


def _output(path: Path, graph: ModelProto, *, pooled: bool) -> ValueInfoProto:
    outputs: dict[str, ValueInfoProto] = {entry.name: entry for entry in graph.graph.output}
    candidates = (*SENTENCES, POOLER) if pooled else (*SENTENCES, *HIDDEN)
    name = next((name for name in candidates if name in outputs), None)
    if name is None:
        hint = (
            f" {POOLER} is taken where sentence_bert_config.json names it as method_output_name."
            if POOLER in outputs and not pooled
            else ""
        )
        raise UnsupportedModelError(
            f"{path} has the outputs {', '.join(outputs)}; one must be "
            f"{', '.join(candidates[:-1])} or {candidates[-1]}.{hint}"
        )
    tensor = outputs[name].type.tensor_type
    if tensor.elem_type not in FLOATS:
        element_type = TensorProto.DataType.Name(tensor.elem_type)
        raise UnsupportedModelError(
            f"{path}: the output {name} is of type {element_type}, not of floats."
        )
    rank, needed = len(tensor.shape.dim), 3 if name in HIDDEN else 2
    if tensor.HasField("shape") and rank != needed:
        raise UnsupportedModelError(
            f"{path}: the output {name} has {rank} dimensions; it must have {needed}."
        )
    return outputs[name]


def _width(output: ValueInfoProto, config: ConfigFile) -> int:
    """Return the width of the output from the graph, or else `hidden_size`."""
    dimensions = output.type.tensor_type.shape.dim
    if dimensions and dimensions[-1].dim_value:
        return int(dimensions[-1].dim_value)
    return config.integer("hidden_size")


def _first_position(config: ConfigFile) -> int:
    padding = config.optional("pad_token_id")
    if config.optional("model_type") not in COUNTED_FROM_PADDING:
        return 0
    return (padding if type(padding) is int and padding >= 0 else 1) + 1


def _positions(config: ConfigFile, first: int) -> int | None:
    """Return the number of usable positions; None if the file does not state it."""
    for key in ("max_position_embeddings", "n_positions"):
        if config.has(key):
            return max(1, config.integer(key) - first)
    return None
