"""A model imported from a ready ONNX export.

The export's graph is kept. The embedder feeds `input_ids` and `attention_mask`, int64 [batch,
tokens], and reads float32; other inputs are computed at the graph's start. If the graph ends before
the folder's pooling and Dense modules, these are appended, and the normalization.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import (
    FunctionProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    compose,
    helper,
    numpy_helper,
)

from embedder.core.artifact import MANIFEST_FILE
from model_compiler.errors import SourceError
from model_compiler.files.export_weights import external_file
from model_compiler.files.weights import Weights
from model_compiler.graph.bases.encoder import Hidden
from model_compiler.graph.builder import GraphBuilder
from model_compiler.model.base import GRAPH_FILE, INPUTS, OUTPUT, CompilerModel, Graph
from model_compiler.model.modules import Head, normalize

#: Prefix of every added name, so that none collides with the export's own.
PREFIX = "embedding_kit."
#: The domains of ONNX Runtime's operators.
DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


def _feed_inputs(model: ModelProto, *, first_position: int) -> None:
    """Leave `input_ids` and `attention_mask` as the only inputs of the export, both int64.

    Position ids count from `first_position`, the one of a text's first token.
    """
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    types = {entry.name: _type(entry) for entry in graph.input if entry.name not in weights}
    nodes = []
    for entry in graph.input:
        if entry.name in {"input_ids", "attention_mask"} and _type(entry) != TensorProto.INT64:
            _rename(graph, entry.name, PREFIX + entry.name)
            entry.type.tensor_type.elem_type = TensorProto.INT64
            nodes.append(_cast(entry.name, PREFIX + entry.name, types[entry.name]))
    if "token_type_ids" in types:
        # All tokens of a single text have type 0.
        zeros = _name("token_type_ids", types)
        twice, name = ["input_ids", "input_ids"], f"{PREFIX}token_type_ids"
        nodes.append(helper.make_node("Sub", twice, [zeros], name=name))
        nodes += _casts("token_type_ids", types)
    if "position_ids" in types:
        # Counted along the mask; a 0 marks padding on the right.
        for name, value in (("axis", 1), ("offset", first_position - 1)):
            graph.initializer.append(numpy_helper.from_array(np.array(value), PREFIX + name))
        nodes += [
            helper.make_node("CumSum", ["attention_mask", f"{PREFIX}axis"], [f"{PREFIX}count"]),
            helper.make_node(
                "Add", [f"{PREFIX}count", f"{PREFIX}offset"], [_name("position_ids", types)]
            ),
            *_casts("position_ids", types),
        ]
    for name in ("token_type_ids", "position_ids"):
        if name in types:
            del graph.input[[entry.name for entry in graph.input].index(name)]
    for number, node in enumerate(nodes):
        graph.node.insert(number, node)


def _cast_output(model: ModelProto, name: str) -> str:
    """Return the name of a value that is an output of the graph, as float32."""
    (output,) = (entry for entry in model.graph.output if entry.name == name)
    if _type(output) == TensorProto.FLOAT:
        return name
    model.graph.node.append(_cast(name, f"{PREFIX}float32", TensorProto.FLOAT))
    return f"{PREFIX}float32"


def _parts(part: GraphProto | FunctionProto) -> Iterator[GraphProto | FunctionProto]:
    """Yield a graph or a function, and the graphs inside its nodes."""
    yield part
    for node in part.node:
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.HasField("g") else []
            for graph in (*inner, *attribute.graphs):
                yield from _parts(graph)


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    for container in (model.graph, *model.functions):
        for graph in _parts(container):
            yield from graph.node


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield every constant of a model: the initializers of graphs, and those in nodes."""
    for container in (model.graph, *model.functions):
        for graph in _parts(container):
            yield from graph.initializer if isinstance(graph, GraphProto) else ()
    for node in _nodes(model):
        for attribute in node.attribute:
            yield from [attribute.t] if attribute.HasField("t") else []
            yield from attribute.tensors


def foreign_operators(model: ModelProto) -> list[str]:
    """Return the operators that neither ONNX Runtime nor the model itself has."""
    own = {(function.domain, function.name) for function in model.functions}
    used = {(node.domain, node.op_type) for node in _nodes(model) if node.domain not in DOMAINS}
    return sorted({f"{domain}.{operator}" for domain, operator in used - own})


def _multiply_adds(model: ModelProto) -> int:
    """Return about how many multiplications of a weight one token costs, at least 1."""
    looked_up = {node.input[0] for node in model.graph.node if node.op_type == "Gather"}
    return 1 + sum(
        int(tensor.dims[0] * tensor.dims[1])
        for tensor in model.graph.initializer
        if len(tensor.dims) == 2 and tensor.name not in looked_up
    )


def _name(name: str, kinds: dict[str, int]) -> str:
    """Return the name of the int64 value that replaces an input."""
    return name if kinds[name] == TensorProto.INT64 else f"{PREFIX}{name}.int64"


def _casts(name: str, kinds: dict[str, int]) -> list[NodeProto]:
    wide = _name(name, kinds)
    return [] if wide == name else [_cast(wide, name, kinds[name])]


def _cast(value: str, output: str, kind: int) -> NodeProto:
    return helper.make_node("Cast", [value], [output], name=f"{PREFIX}cast.{output}", to=kind)


def _type(entry: ValueInfoProto) -> int:
    return int(entry.type.tensor_type.elem_type)


def _rename(graph: GraphProto, old: str, new: str) -> None:
    """Rename a value wherever it is read, including inner graphs."""
    for inner in _parts(graph):
        for node in inner.node:
            for number, name in enumerate(node.input):
                if name == old:
                    node.input[number] = new


HEAD_FILE = "head.data"
#: The artifact's own files, which weights must not overwrite.
OWN_FILES = frozenset({GRAPH_FILE, HEAD_FILE, MANIFEST_FILE, "tokenizer.json", "tokenizer.bin"})
#: The first opset in which the appended operators have their current meaning, and the exceptions.
OLDEST_OPSET = 13
NEWER = {"Gelu": 20, "ReduceMax": 18}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedModel(CompilerModel):
    """An export, as its folder describes it."""

    path: Path
    graph: ModelProto
    #: The output that is used: the embedding, or the input of the head.
    output: str
    #: The last dimension of that output.
    width: int
    #: The modules that follow an output that is not the embedding.
    head: Head | None
    #: The position id of a text's first token.
    first_position: int
    #: The full-precision export that this one is compared with; None without, or if this is it.
    reference: "ImportedModel | None" = None

    @property
    def quantized(self) -> bool:
        """Whether the graph computes with quantized weights, whatever its name says."""
        marks = ("Quant", "Integer", "QLinear", "QGemm", "QAttention", "NBits", "Bnb4")
        return any(mark in node.op_type for node in _nodes(self.graph) for mark in marks)

    @property
    def label(self) -> str:
        """The model in an error message."""
        return f"the export {self.path.name}"

    @property
    def remedy(self) -> str:
        """A sentence for the user of a model that missed a threshold."""
        if self.reference:
            alternative = f"Omit --precision to use {self.reference.path.name} in full precision"
        else:
            alternative = "Export the model in full precision, or with scales per row"
        return f"{alternative}, or add --unmeasured to accept these vectors."

    def check(self) -> None:
        """Look for the files of the weights, and build the head; see `CompilerModel.check`."""
        self._weight_files()
        with Path(os.devnull).open("wb") as nowhere:
            builder = GraphBuilder(name="head", weights=nowhere, weights_file=HEAD_FILE)
            self._check_opset(self._added(builder, self.output))

    def write(self, folder: Path, *, progress: bool = False) -> Graph:  # noqa: ARG002  (one copy)
        """Write the graph, and copy the files of its weights; see `CompilerModel.write`."""
        files = self._weight_files()
        digest = hashlib.sha256()
        for path in files:
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        proto = ModelProto()
        proto.CopyFrom(self.graph)
        digest.update(proto.SerializeToString(deterministic=True))
        source = digest.digest()
        names = _free_names([path.name for path in files])
        for path in files:
            shutil.copyfile(path, folder / names[path.name])
        for tensor in _tensors(proto):
            for entry in tensor.external_data:
                if entry.key == "location":
                    entry.value = names[entry.value]
        _feed_inputs(proto, first_position=self.first_position)
        with (folder / HEAD_FILE).open("xb") as file:
            builder = GraphBuilder(name="head", weights=file, weights_file=HEAD_FILE)
            added = self._added(builder, _cast_output(proto, self.output))
        if not (folder / HEAD_FILE).stat().st_size:
            (folder / HEAD_FILE).unlink()
        self._check_opset(added)
        proto.graph.node.extend(added.graph.node)
        proto.graph.initializer.extend(added.graph.initializer)
        del proto.graph.output[:]
        proto.graph.output.extend(added.graph.output)
        serialized = proto.SerializeToString(deterministic=True)
        (folder / GRAPH_FILE).write_bytes(serialized)
        digest.update(serialized)
        for value in builder.external_digests.values():
            digest.update(value)
        return Graph(
            file=GRAPH_FILE,
            digest=digest.digest(),
            source_digest=source,
            precision=self.path.stem,
            inputs=[entry.name for entry in proto.graph.input if entry.name in INPUTS],
            output=proto.graph.output[0].name,
            optimization="extended",
            multiply_adds=_multiply_adds(self.graph),
        )

    def _weight_files(self) -> list[Path]:
        """Return the files next to the graph that hold its weights."""
        ends: dict[str, int] = {}
        for tensor in _tensors(self.graph):
            entries = {entry.key: entry.value for entry in tensor.external_data}
            if "location" in entries:
                name = entries["location"]
                end = _number(entries.get("offset")) + _number(entries.get("length"))
                ends[name] = max(end, ends.get(name, 0))
        return [external_file(self.path, name, end=end) for name, end in sorted(ends.items())]

    def _added(self, builder: GraphBuilder, value: str) -> ModelProto:
        """Build the part after the export's output `value`, with names that cannot collide."""
        pooled: list[str | int] = ["batch", self.width]
        if self.head:
            builder.input("attention_mask", dtype=np.int64, shape=["batch", "tokens"])
            tokens: list[str | int] = ["batch", "tokens", self.width]
            builder.input(value, dtype=np.float32, shape=tokens if self.head.pooling else pooled)
            opened = [Weights(module.folder) for module in self.head.modules]
            self.head.add(builder, Hidden(value), opened, output=OUTPUT)
        else:
            builder.input(value, dtype=np.float32, shape=pooled)
            normalize(builder, value, output="length_1")
            builder.output("length_1", dtype=np.float32, shape=pooled)
        return compose.add_prefix(builder.model(), PREFIX, rename_inputs=False)

    def _check_opset(self, added: ModelProto) -> None:
        opset = max(entry.version for entry in self.graph.opset_import if not entry.domain)
        needed = max(OLDEST_OPSET, *(NEWER.get(node.op_type, 0) for node in added.graph.node))
        if opset < needed:
            raise SourceError(
                f"{self.path} uses opset {opset}; the appended operators need {needed}. "
                "Export it again."
            )


def _free_names(names: Sequence[str]) -> dict[str, str]:
    """Give each file of weights a name that no other file of the artifact has."""
    taken = {name.casefold() for name in (*names, *OWN_FILES)}
    free = {}
    for name in names:
        free[name] = name
        while free[name].casefold() in OWN_FILES or (
            free[name] != name and free[name].casefold() in taken
        ):
            free[name] = f"weights.{free[name]}"
        taken.add(free[name].casefold())
    return free


def _number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() and len(text) < 20 else 0
