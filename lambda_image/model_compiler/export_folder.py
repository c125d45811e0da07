"""Reads a folder with a ready ONNX export of an embedding model, without its weights.

Such a folder has `model.onnx`, or `onnx/model.onnx` and its quantized siblings, as the ecosystem's
exporters write them, the model's `config.json` and `tokenizer.json`. Where the graph ends in the
last hidden state, the folder's own pooling and Dense modules say what follows.
"""

from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, TensorProto, ValueInfoProto

from model_compiler.config_file import ConfigFile
from model_compiler.errors import SourceError, UnsupportedModelError
from model_compiler.model_folder import (
    Head,
    Prompts,
    encoder_folder_of,
    read_head,
    read_max_tokens,
    read_prompts,
)
from model_compiler.quantization import Precision
from model_compiler.tokenizer_file import TokenizerFile, read_tokenizer

__all__ = ["ExportFolder", "export_places", "find_export", "read_export_folder"]

#: Where exporters put the graph, for each precision that is asked for; the first that is there.
PLACES = {
    Precision.INT8: ("onnx/model_quantized.onnx", "model_quantized.onnx"),
    Precision.FP32: ("onnx/model.onnx", "model.onnx"),
}
INPUTS = ("input_ids", "attention_mask", "token_type_ids")
SENTENCE, HIDDEN = "sentence_embedding", "last_hidden_state"


@dataclass(frozen=True, slots=True)
class ExportFolder:
    """An export, as its folder describes it."""

    path: Path
    graph: ModelProto
    #: The output that is taken: the embedding, or the last hidden state.
    output: str
    #: How wide that output is.
    width: int
    #: What follows a last hidden state.
    head: Head | None
    vocabulary_size: int
    max_tokens: int
    prompts: Prompts
    tokenizer: TokenizerFile

    @property
    def family(self) -> str:
        """What stands for the architecture, which an export does not say."""
        return "onnx"

    @property
    def dimension(self) -> int:
        """The width of the embedding."""
        return self.head.dimension if self.head else self.width

    @property
    def weight_files(self) -> list[Path]:
        """The files beside the graph that hold its weights."""
        names = {
            entry.value
            for tensor in self.graph.graph.initializer
            for entry in tensor.external_data
            if entry.key == "location"
        }
        outside = [name for name in names if Path(name).name != name]
        if outside:
            raise SourceError(f"{self.path} keeps weights outside its own folder: {outside[0]!r}.")
        return [self.path.parent / name for name in sorted(names)]


def find_export(folder: Path, precision: Precision) -> Path | None:
    """Return the graph of a folder that has an export and no weights to compile; or none."""
    encoders = [folder, *folder.glob("0_*")]
    if any(any(encoder.glob("*.safetensors*")) for encoder in encoders):
        return None
    for place in export_places(precision):
        if (folder / place).is_file():
            return folder / place
    return None


def export_places(precision: Precision) -> tuple[str, ...]:
    """Return where an export may lie in its folder, the place to look first in front."""
    other = next(each for each in Precision if each is not precision)
    return (*PLACES[precision], *PLACES[other])


def read_export_folder(folder: Path, path: Path) -> ExportFolder:
    """Read the folder around the export at `path`.

    Raises:
        SourceError: if a file is missing or wrong.
        UnsupportedModelError: if the graph has inputs or outputs that the embedder cannot serve.
    """
    graph = _load(path)
    _check_inputs(path, graph)
    output = _output(path, graph)
    has_modules = (folder / "modules.json").exists()
    encoder = encoder_folder_of(folder) if has_modules else folder
    config = ConfigFile(encoder / "config.json")
    rows = config.integer("vocab_size")
    tokenizer = read_tokenizer(encoder / "tokenizer.json", vocabulary_size=rows)
    width = _width(output, config)
    head = None
    if output.name == HIDDEN:
        if not has_modules:
            raise SourceError(
                f"{path} gives {HIDDEN} and no {SENTENCE}, and {folder} has no modules.json that "
                "says how its tokens are pooled."
            )
        head = read_head(folder, hidden_size=width)
    return ExportFolder(
        path=path,
        graph=graph,
        output=output.name,
        width=width,
        head=head,
        vocabulary_size=rows,
        max_tokens=read_max_tokens(
            encoder, tokenizer, max_positions=config.integer("max_position_embeddings")
        ),
        prompts=read_prompts(folder, normalized=head is None or head.normalized),
        tokenizer=tokenizer,
    )


def _load(path: Path) -> ModelProto:
    try:
        graph = onnx.load(path, load_external_data=False)
    except DecodeError as error:
        raise SourceError(f"{path} is cut short or no ONNX file: {error}.") from error
    if not graph.graph.node:
        raise SourceError(f"{path} is no ONNX graph: it has no nodes.")
    return graph


def _check_inputs(path: Path, graph: ModelProto) -> None:
    weights = {tensor.name for tensor in graph.graph.initializer}
    inputs = [entry for entry in graph.graph.input if entry.name not in weights]
    names = [entry.name for entry in inputs]
    if set(names) - set(INPUTS) or not {"input_ids", "attention_mask"} <= set(names):
        raise UnsupportedModelError(
            f"{path} has the inputs {', '.join(names)}; the embedder can give input_ids and "
            "attention_mask, and token_type_ids of zeros."
        )
    for entry in inputs:
        if entry.type.tensor_type.elem_type != TensorProto.INT64:
            kind = TensorProto.DataType.Name(entry.type.tensor_type.elem_type)
            raise UnsupportedModelError(
                f"{path}: the input {entry.name} is of type {kind}; the embedder gives INT64."
            )


def _output(path: Path, graph: ModelProto) -> ValueInfoProto:
    outputs: dict[str, ValueInfoProto] = {entry.name: entry for entry in graph.graph.output}
    for name in (SENTENCE, HIDDEN):
        if name in outputs:
            if outputs[name].type.tensor_type.elem_type != TensorProto.FLOAT:
                raise UnsupportedModelError(f"{path}: the output {name} is not float32.")
            return outputs[name]
    raise UnsupportedModelError(
        f"{path} has the outputs {', '.join(outputs)}; one must be {SENTENCE} or {HIDDEN}."
    )


def _width(output: ValueInfoProto, config: ConfigFile) -> int:
    """Return the width of the output, which the graph states, or else `hidden_size`."""
    dimensions = output.type.tensor_type.shape.dim
    if dimensions and dimensions[-1].dim_value:
        return int(dimensions[-1].dim_value)
    return config.integer("hidden_size")
