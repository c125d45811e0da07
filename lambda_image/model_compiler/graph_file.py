"""Writes a model's graph and weights: encoder, pooling, dense layers and normalisation in one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto
from tqdm import tqdm

from model_compiler.graph import GraphBuilder
from model_compiler.identity import graph_digest
from model_compiler.model_folder import Head, ModelFolder
from model_compiler.quantization import Precision
from model_compiler.sentence_modules import normalize
from model_compiler.weights import Weights

__all__ = [
    "GRAPH_FILE",
    "INPUTS",
    "OUTPUT",
    "ROWS_FILE",
    "WEIGHTS_FILE",
    "Graph",
    "add_head",
    "write_graph",
]

GRAPH_FILE = "model.onnx"
WEIGHTS_FILE = "model.onnx.data"
#: The embedding table, of which a run reads a row a token.
ROWS_FILE = "model.onnx.rows"
INPUTS = ("input_ids", "attention_mask")
OUTPUT = "sentence_embedding"


@dataclass(frozen=True, slots=True)
class Graph:
    """What was written."""

    #: A hash of what the graph computes; see `identity.graph_digest`.
    digest: bytes
    #: A hash of the model's own weights, in full precision.
    source_digest: bytes
    #: The name of each layer's output, by the layer's label.
    marks: Mapping[str, str]
    #: Multiplications of a weight that one token costs.
    multiply_adds: int


def write_graph(
    model: ModelFolder, folder: Path, precision: Precision, *, progress: bool = False
) -> Graph:
    """Write `model.onnx`, `model.onnx.data` and `model.onnx.rows` into a folder.

    Raises:
        SourceError: if the weights are missing, damaged, or not what the configuration says.
        UnsupportedModelError: if there are weights that the graph has no use for.
        OSError: if the disk is full.
    """
    with (
        (folder / WEIGHTS_FILE).open("wb") as file,
        (folder / ROWS_FILE).open("wb") as rows,
        tqdm(desc=str(precision), unit="B", unit_scale=True, disable=not progress) as bar,
    ):
        encoder = Weights(model.encoder_folder, progress=bar.update)
        dense = [Weights(module.folder, progress=bar.update) for module in model.head.dense]
        bar.reset(sum(weights.total_bytes for weights in (encoder, *dense)))
        builder = GraphBuilder(
            name=model.architecture.name,
            weights=file,
            weights_file=WEIGHTS_FILE,
            rows=rows,
            rows_file=ROWS_FILE,
        )
        for name in INPUTS:
            builder.input(name, dtype=np.int64, shape=["batch", "tokens"])
        value = model.architecture.build(builder, encoder, precision)
        add_head(builder, value, model.head, dense, precision)
        bar.update(bar.total - bar.n)  # tensors that nobody needs
    proto = builder.model()
    (folder / GRAPH_FILE).write_bytes(proto.SerializeToString(deterministic=True))
    return Graph(
        digest=graph_digest(proto, weights=builder.external_digests),
        source_digest=b"".join(weights.digest for weights in (encoder, *dense)),
        marks=builder.marks,
        multiply_adds=_multiply_adds(proto),
    )


def add_head(
    builder: GraphBuilder,
    hidden: str,
    head: Head,
    dense: Sequence[Weights],
    precision: Precision,
) -> None:
    """Take the last hidden state to the graph's output."""
    value = head.pooling.add(builder, hidden) if head.pooling else hidden
    for module, weights in zip(head.dense, dense, strict=True):
        value = module.add(builder, value, weights, precision)
    normalize(builder, value, output=OUTPUT)
    builder.output(OUTPUT, dtype=np.float32, shape=["batch", head.dimension])


def _multiply_adds(model: ModelProto) -> int:
    sizes = {
        tensor.name: tensor.dims[0] * tensor.dims[1]
        for tensor in model.graph.initializer
        if len(tensor.dims) == 2
    }
    return sum(
        sizes.get(name, 0)
        for node in model.graph.node
        if "MatMul" in node.op_type
        for name in node.input[:2]
    )
