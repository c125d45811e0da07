"""Takes a ready ONNX export into an artifact: the graph as it is, with what is missing at its ends.

At the start, the inputs that the embedder does not feed; at the end, the folder's pooling and Dense
modules where the graph ends before them, and the normalization.
"""

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto, compose

from model_compiler.artifact_writer import MANIFEST_FILE
from model_compiler.errors import SourceError
from model_compiler.export_folder import ExportFolder
from model_compiler.export_graph import PREFIX, cast_output, feed_inputs, tensors
from model_compiler.graph import GraphBuilder
from model_compiler.graph_file import GRAPH_FILE, INPUTS, Graph, add_head
from model_compiler.quantization import Precision
from model_compiler.sentence_modules import normalize
from model_compiler.weights import Weights

__all__ = ["write_export"]

HEAD_FILE = "head.data"
#: The artifact's own files, which weights must not overwrite.
OWN_FILES = frozenset({GRAPH_FILE, HEAD_FILE, MANIFEST_FILE, "tokenizer.json", "tokenizer.bin"})
#: The first opset in which the added operators are what they are now, and those that are younger.
OLDEST_OPSET = 13
NEWER = {"Gelu": 20, "ReduceMax": 18}


@dataclass(frozen=True, slots=True)
class Export:
    """What was written, and how it is fed."""

    graph: Graph
    inputs: list[str]
    output: str


def write_export(model: ExportFolder, folder: Path) -> Export:
    """Write the graph, and copy the files of its weights, into a folder.

    Raises:
        SourceError: if a file of weights is missing, or the graph's opset is too old.
        OSError: if the disk is full.
    """
    digest = hashlib.sha256()
    files = model.weight_files
    for path in files:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    proto = ModelProto()
    proto.CopyFrom(model.graph)
    digest.update(proto.SerializeToString(deterministic=True))
    source = digest.digest()
    names = _free_names([path.name for path in files])
    for path in files:
        shutil.copyfile(path, folder / names[path.name])
    _rename_files(proto, names)
    feed_inputs(proto, first_position=model.first_position)
    with (folder / HEAD_FILE).open("xb") as file:
        builder = GraphBuilder(name="head", weights=file, weights_file=HEAD_FILE)
        added = _added(model, builder, cast_output(proto, model.output))
    if not (folder / HEAD_FILE).stat().st_size:
        (folder / HEAD_FILE).unlink()
    _check_opset(model, added)
    _join(proto, added)
    serialized = proto.SerializeToString(deterministic=True)
    (folder / GRAPH_FILE).write_bytes(serialized)
    digest.update(serialized)
    for value in builder.external_digests.values():
        digest.update(value)
    return Export(
        graph=Graph(digest=digest.digest(), source_digest=source, marks={}, multiply_adds=0),
        inputs=[entry.name for entry in proto.graph.input if entry.name in INPUTS],
        output=proto.graph.output[0].name,
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


def _rename_files(export: ModelProto, names: Mapping[str, str]) -> None:
    for tensor in tensors(export):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = names[entry.value]


def _added(model: ExportFolder, builder: GraphBuilder, value: str) -> ModelProto:
    """Build what follows the export's output `value`, with names that are no one else's."""
    pooled: list[str | int] = ["batch", model.width]
    if model.head:
        builder.input("attention_mask", dtype=np.int64, shape=["batch", "tokens"])
        tokens: list[str | int] = ["batch", "tokens", model.width]
        shape = tokens if model.head.pooling else pooled
        builder.input(value, dtype=np.float32, shape=shape)
        dense = [Weights(module.folder) for module in model.head.dense]
        add_head(builder, value, model.head, dense, Precision.FP32)
    else:
        builder.input(value, dtype=np.float32, shape=pooled)
        normalize(builder, value, output="length_1")
        builder.output("length_1", dtype=np.float32, shape=pooled)
    return compose.add_prefix(builder.model(), PREFIX, rename_inputs=False)


def _join(export: ModelProto, added: ModelProto) -> None:
    """Append nodes and weights to the export, and make their output the only one."""
    export.graph.node.extend(added.graph.node)
    export.graph.initializer.extend(added.graph.initializer)
    del export.graph.output[:]
    export.graph.output.extend(added.graph.output)


def _check_opset(model: ExportFolder, added: ModelProto) -> None:
    found = max(entry.version for entry in model.graph.opset_import if not entry.domain)
    needed = max(OLDEST_OPSET, *(NEWER.get(node.op_type, 0) for node in added.graph.node))
    if found < needed:
        raise SourceError(
            f"{model.path} is of opset {found}; what follows it needs {needed}. Export it again."
        )
