"""A model compiled from its weights: encoder, pooling, dense layers and normalization."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from onnx import ModelProto
from tqdm import tqdm

from model_compiler.files.adapter import ADAPTER_FILE, merged_tensors
from model_compiler.files.export_weights import ExportWeights
from model_compiler.files.folder import ConfigFolder
from model_compiler.files.weights import Weights, open_tensors, stored_tensors
from model_compiler.graph.architectures import Architecture
from model_compiler.graph.builder import GraphBuilder, graph_digest
from model_compiler.graph.operators import with_operators
from model_compiler.model.base import (
    GRAPH_FILE,
    INPUTS,
    OPERATOR_FILE,
    OUTPUT,
    SEGMENT_INPUTS,
    Graph,
    OwnModel,
)
from model_compiler.model.modules import Dense, Head, TakenHead

WEIGHTS_FILE = "model.onnx.data"
#: The embedding table; each token of a request reads one row of it.
ROWS_FILE = "model.onnx.rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModel(OwnModel):
    """A model with a graph that the compiler builds from its weights."""

    encoder: ConfigFolder
    #: The export with the encoder's weights as initializers; None if there are weights.
    export: Path | None = None
    architecture: Architecture
    head: Head | TakenHead
    #: Layers, counted from 0, that stay in float32 because their int8 is not accurate enough.
    float32_layers: frozenset[int] = frozenset()

    def check(self, *, values: bool = True) -> None:
        """Build the graph and write it nowhere; see `CompilerModel.check`."""
        with Path(os.devnull).open("wb") as nowhere:
            builder = GraphBuilder(name=self.family, weights=nowhere, weights_file=WEIGHTS_FILE)
            encoder, modules = self._weights(values=values)
            self._build(builder, encoder, modules)

    def write(self, folder: Path, *, progress: bool = False) -> Graph:
        """Write both graphs, their `.data` and their `.rows`; see `CompilerModel.write`."""
        with (
            (folder / WEIGHTS_FILE).open("wb") as file,
            (folder / ROWS_FILE).open("wb") as rows,
            tqdm(desc=self.precision, unit="B", unit_scale=True, disable=not progress) as bar,
        ):
            encoder, modules = self._weights(progress=bar.update)
            bar.reset(sum(weights.total_bytes for weights in (encoder, *modules)))
            builder = GraphBuilder(
                name=self.family,
                weights=file,
                weights_file=WEIGHTS_FILE,
                rows=rows,
                rows_file=ROWS_FILE,
                precision=self.precision,
                float32_layers=self.float32_layers,
            )
            self._build(builder, encoder, modules)
            bar.update(bar.total - bar.n)  # tensors that the graph does not use
        proto = builder.model()
        (folder / GRAPH_FILE).write_bytes(proto.SerializeToString(deterministic=True))
        (folder / OPERATOR_FILE).unlink(missing_ok=True)  # of the same model with more of int8
        rewritten = with_operators(proto)
        if rewritten is not None:
            content = rewritten.SerializeToString(deterministic=True)
            (folder / OPERATOR_FILE).write_bytes(content)
        return Graph(
            file=GRAPH_FILE,
            operator_file=None if rewritten is None else OPERATOR_FILE,
            digest=graph_digest(proto, weights=builder.external_digests),
            source_digest=b"".join(weights.digest for weights in (encoder, *modules)),
            precision=self.precision,
            inputs=self._inputs,
            multiply_adds=_multiply_adds(proto),
            layers=builder.layers,
        )

    def _weights(
        self, *, values: bool = True, progress: Callable[[int], object] = lambda _: None
    ) -> tuple[Weights, list[Weights]]:
        folder = self.encoder.path
        encoder: Weights
        if self.export:
            encoder = ExportWeights(self.export, values=values, progress=progress)
        else:
            adapted = self.encoder.has(ADAPTER_FILE)
            tensors = merged_tensors(self.encoder) if adapted else stored_tensors(folder)
            if not isinstance(self.head, Head) and self.head.file:
                file = folder / self.head.file
                head = open_tensors(file)
                tensors = {**tensors, **{f"{file.stem}.{name}": head[name] for name in head}}
            encoder = Weights(folder, tensors=tensors, progress=progress)
        modules = self.head.modules if isinstance(self.head, Head) else ()
        opened = [
            Weights(
                module.folder,
                tensors=module.tensors if isinstance(module, Dense) else None,
                progress=progress,
            )
            for module in modules
        ]
        return encoder, opened

    def _build(self, builder: GraphBuilder, encoder: Weights, modules: Sequence[Weights]) -> None:
        for name in self._inputs:
            builder.input(name, dtype=np.int64, shape=["batch", "tokens"])
        if self._inputs == SEGMENT_INPUTS:
            builder.op.Min(SEGMENT_INPUTS[1], builder.constant(1, np.int64), output=INPUTS[1])
        if isinstance(self.head, Head):
            hidden = self.architecture.build(builder, encoder)
            self.head.add(builder, hidden, modules, output=OUTPUT)
        else:
            taken = self.head.take(encoder)
            hidden = self.architecture.build(builder, encoder)
            self.head.add(builder, hidden, taken, output=OUTPUT)

    @property
    def _inputs(self) -> tuple[str, str]:
        pooling = self.head.pooling
        two = self.scoring.second_type if self.scoring else pooling and not pooling.include_prompt
        return SEGMENT_INPUTS if two else INPUTS


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
