"""Reads a model's weights from the initializers of an ONNX export.

Exporters keep the names of weights, under the name of a module around the model if there is one.
The matrix of a linear layer loses its name: it becomes the transposed right side of a MatMul. It is
found by the bias that is added to the product, which keeps its name.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from model_compiler.errors import SourceError
from model_compiler.files.config import require_file
from model_compiler.files.weights import StoredTensor, Weights

#: The types of weights by the names that safetensors has for them.
TYPES: dict[int, str] = {
    TensorProto.DOUBLE: "F64",
    TensorProto.FLOAT: "F32",
    TensorProto.FLOAT16: "F16",
    TensorProto.BFLOAT16: "BF16",
}

WEIGHT, BIAS = ".weight", ".bias"


class ExportWeights(Weights):
    """The weights of an export; numbers and tensors of integers are part of the computation.

    Without `values`, all are 1, to check names and shapes only.
    """

    def __init__(
        self, path: Path, *, values: bool = True, progress: Callable[[int], object] = lambda _: None
    ) -> None:
        tensors = _named(path)
        if not values:
            tensors = {
                name: replace(tensor, read=partial(np.ones, tensor.shape, np.float32))
                for name, tensor in tensors.items()
            }
        super().__init__(path, tensors=tensors, progress=progress)

    def prefix(self, candidates: tuple[str, ...], name: str) -> str:  # noqa: ARG002
        """Return the one prefix with which `name` exists, whatever it is."""
        ends = [
            initializer
            for initializer in self._tensors
            if initializer == name or initializer.endswith(f".{name}")
        ]
        if len(ends) != 1:
            raise SourceError(
                f"{self.folder} has {len(ends)} initializers named {name!r} or ending in it; "
                "there must be one."
            )
        return ends[0].removesuffix(name)


def _named(path: Path) -> dict[str, StoredTensor]:
    """Return the weights by their names in the model."""
    graph = load_export(path).graph
    initializers = {
        tensor.name: tensor
        for tensor in graph.initializer
        if tensor.data_type in TYPES and math.prod(tensor.dims) > 1
    }
    layers = list(_linear_layers(graph, initializers))
    named = initializers.keys() - {matrix for _, matrix, _ in layers}
    stored: dict[str, StoredTensor] = {}
    for name, tensor, transposed in [
        *layers,
        *((initializer, initializer, False) for initializer in named),
    ]:
        if name in stored:
            raise SourceError(f"{path} has two matrices for {name}.")
        stored[name] = _stored(path, initializers[tensor], transposed=transposed)
    return stored


def load_export(path: Path) -> ModelProto:
    """Read an export without the weights in other files."""
    require_file(path)
    try:
        return onnx.load(path, load_external_data=False)
    except DecodeError as error:
        raise SourceError(f"{path} is cut short or not an ONNX file: {error}.") from error


def external_file(path: Path, name: str, *, end: int) -> Path:
    """Return the file next to the export at `path` that has weights up to byte `end`."""
    if not name or Path(name).name != name or name == ".." or "\0" in name:
        raise SourceError(f"{path} keeps weights outside its own folder: {name!r}.")
    file = path.parent / name
    if not file.is_file():
        raise SourceError(f"{file} is missing, in which {path.name} keeps its weights.")
    require_file(file)
    if file.stat().st_size < end:
        raise SourceError(
            f"{file} is cut short: it has {file.stat().st_size} bytes, and {path.name} keeps "
            f"weights in it up to byte {end}."
        )
    return file


def _linear_layers(
    graph: GraphProto, initializers: dict[str, TensorProto]
) -> Iterator[tuple[str, str, bool]]:
    """Yield the name of each linear layer's weight, its matrix, and whether that is transposed."""
    readers = defaultdict(list)
    for node in graph.node:
        for value in node.input:
            readers[value].append(node)
    for node in graph.node:
        if node.op_type not in {"MatMul", "Gemm"} or node.input[1] not in initializers:
            continue
        matrix = node.input[1]
        if matrix.endswith(WEIGHT):
            name = matrix
        elif bias := next(iter(_biases(node, readers[node.output[0]], initializers)), None):
            name = bias.removesuffix(BIAS) + WEIGHT
        else:
            name = matrix
        # A MatMul has [inputs, outputs], a linear layer of torch [outputs, inputs].
        straight = any(entry.name == "transB" and entry.i for entry in node.attribute)
        yield name, matrix, not straight


def _biases(
    node: NodeProto, readers: list[NodeProto], initializers: dict[str, TensorProto]
) -> list[str]:
    added = list(node.input[2:])
    if [reader.op_type for reader in readers] == ["Add"]:
        added += readers[0].input
    return [name for name in added if name in initializers and name.endswith(BIAS)]


def _stored(path: Path, tensor: TensorProto, *, transposed: bool) -> StoredTensor:
    external = tensor.data_location == TensorProto.EXTERNAL
    # A copy, because the values of a message cannot be changed in place.
    inner = path, lambda: np.array(numpy_helper.to_array(tensor))
    file, read = _external(path, tensor) if external else inner
    shape = tuple(tensor.dims)
    if transposed:
        return StoredTensor(
            file, TYPES[tensor.data_type], shape[::-1], lambda: np.ascontiguousarray(read().T)
        )
    return StoredTensor(file, TYPES[tensor.data_type], shape, read)


def _external(path: Path, tensor: TensorProto) -> tuple[Path, Callable[[], npt.NDArray[Any]]]:
    """Return the file next to the export that has a tensor's values, and what reads them."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    name, offset = entries.get("location", ""), entries.get("offset", "0")
    dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
    count = math.prod(tensor.dims)
    if not offset.isdecimal() or len(offset) > 19:
        raise SourceError(f"{path}: {tensor.name} has the offset {offset!r}; it must be a number.")
    file = external_file(path, name, end=int(offset) + count * dtype.itemsize)

    def read() -> npt.NDArray[Any]:
        return np.fromfile(file, dtype, count, offset=int(offset)).reshape(tuple(tensor.dims))

    return file, read
