"""Takes a ready ONNX export into an artifact: the graph as it is, with what is missing at its ends.

At the start, token types of zeros where the graph asks for them; at the end, the folder's pooling
and Dense modules where the graph stops at the last hidden state, and the normalisation.
"""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto, compose, helper

from model_compiler.errors import SourceError
from model_compiler.export_folder import HIDDEN, ExportFolder
from model_compiler.graph import GraphBuilder
from model_compiler.graph_file import GRAPH_FILE, INPUTS, Graph, add_head
from model_compiler.quantization import Precision
from model_compiler.sentence_modules import normalize
from model_compiler.weights import Weights

__all__ = ["write_export"]

#: Put before every name of what is added, so that none is the export's own.
PREFIX = "embedding_kit."
TYPE_IDS = "token_type_ids"
HEAD_FILE = "head.data"
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
    for path in model.weight_files:
        if not path.is_file():
            raise SourceError(f"{path} is missing, in which {model.path.name} keeps its weights.")
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
        shutil.copyfile(path, folder / path.name)
    proto = ModelProto()
    proto.CopyFrom(model.graph)
    digest.update(proto.SerializeToString(deterministic=True))
    source = digest.digest()
    with (folder / HEAD_FILE).open("xb") as file:
        builder = GraphBuilder(name="head", weights=file, weights_file=HEAD_FILE)
        added = _added(model, builder)
    if not (folder / HEAD_FILE).stat().st_size:
        (folder / HEAD_FILE).unlink()
    _check_opset(model, added)
    _join(proto, added)
    _feed_token_types(proto)
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


def _added(model: ExportFolder, builder: GraphBuilder) -> ModelProto:
    """Build what follows the export's output, as a graph whose names are no one else's."""
    if model.head:
        builder.input("attention_mask", dtype=np.int64, shape=["batch", "tokens"])
        builder.input(HIDDEN, dtype=np.float32, shape=["batch", "tokens", model.width])
        dense = [Weights(module.folder) for module in model.head.dense]
        add_head(builder, HIDDEN, model.head, dense, Precision.FP32)
    else:
        builder.input(model.output, dtype=np.float32, shape=["batch", model.width])
        normalize(builder, model.output, output="length_1")
        builder.output("length_1", dtype=np.float32, shape=["batch", model.width])
    return compose.add_prefix(builder.model(), PREFIX, rename_inputs=False)


def _join(export: ModelProto, added: ModelProto) -> None:
    """Append nodes and weights to the export, and make their output the only one."""
    export.graph.node.extend(added.graph.node)
    export.graph.initializer.extend(added.graph.initializer)
    del export.graph.output[:]
    export.graph.output.extend(added.graph.output)


def _feed_token_types(export: ModelProto) -> None:
    """Make token types of zeros inside the graph: a single text is all of type 0."""
    names = [entry.name for entry in export.graph.input]
    if TYPE_IDS in names:
        del export.graph.input[names.index(TYPE_IDS)]
        zeros = helper.make_node(
            "Sub", ["input_ids", "input_ids"], [TYPE_IDS], name=f"{PREFIX}{TYPE_IDS}"
        )
        export.graph.node.insert(0, zeros)


def _check_opset(model: ExportFolder, added: ModelProto) -> None:
    found = max(entry.version for entry in model.graph.opset_import if not entry.domain)
    needed = max(OLDEST_OPSET, *(NEWER.get(node.op_type, 0) for node in added.graph.node))
    if found < needed:
        raise SourceError(
            f"{model.path} is of opset {found}; what follows it needs {needed}. Export it again."
        )
