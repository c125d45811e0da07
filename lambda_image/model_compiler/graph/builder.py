"""Builds the ONNX graph: nodes, constants, and weights that stream into external files.

Weights are written as they are added, so that a model of gigabytes is never completely in memory.
Names and offsets depend only on the order of the calls, so the same calls give the same bytes.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper

#: The domain of ONNX Runtime's own operators (its ContribOperators.md).
MICROSOFT = "com.microsoft"

#: The opset of the standard operators: in the first, QuantizeLinear accepts a row as a block.
#: Later ones start slower: for each node, ONNX Runtime tries an operator's kernels twice, from the
#: oldest on, and formats a message for each that does not match.
OPSET = 21
#: The first with the operator Attention.
ATTENTION_OPSET = 23
IR_VERSION = 10

#: Smaller tensors, in bytes, are stored in the graph file itself. Each external tensor adds about
#: 40 µs to a cold start for path lookups and mapping; copying a small one takes 2 µs.
INLINE_BYTES = 16_384
#: Weights start at a page boundary, so that ONNX Runtime can map them instead of reading them.
ALIGNMENT = 4096


class Precision(StrEnum):
    """The type in which weights are stored and multiplied."""

    FP32 = "fp32"
    INT8 = "int8"


class Operators:
    """The operators of one domain as functions, which add nodes to a graph.

    Each takes names of values and attributes, and returns the name of its output.
    """

    def __init__(self, builder: "GraphBuilder", *, domain: str) -> None:
        self._builder = builder
        self._domain = domain

    def __getattr__(self, operator: str) -> Callable[..., str]:
        return partial(self._builder.node, operator, domain=self._domain)


class GraphBuilder:
    """Builds one graph.

    Large weights go to the file `weights`, from its current position on, and tables of which a run
    reads a few rows to `rows`, by default the same; both have names relative to the graph's folder.
    `float32_layers`, counted from 0, are kept in float32 whatever the precision.
    """

    def __init__(
        self,
        *,
        name: str,
        weights: BinaryIO,
        weights_file: str,
        rows: BinaryIO | None = None,
        rows_file: str | None = None,
        precision: Precision = Precision.FP32,
        float32_layers: Collection[int] = (),
    ) -> None:
        #: Whether the precision is int8.
        self.int8 = precision is Precision.INT8
        self._graph = GraphProto(name=name)
        self._weights = (weights, weights_file)
        self._rows = (rows or weights, rows_file or weights_file)
        self._counts = Counter[str]()
        self._uses = Counter[str]()
        #: Hash of a weight's values and its storage, by the weight's name and type.
        self._stored: dict[tuple[str, str], tuple[bytes, TensorProto]] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._float32_layers = frozenset(float32_layers)
        #: The SHA-256 of each external weight, by its name.
        self.external_digests: dict[str, bytes] = {}
        #: The outputs of the encoder's finished layers.
        self.layers: list[str] = []
        self._opset = OPSET

    @property
    def quantizes(self) -> bool:
        """Whether the layer that is being built is in int8."""
        return self.int8 and len(self.layers) not in self._float32_layers

    def end_layer(self, output: str) -> str:
        """State that a layer of the encoder is finished, and return its output."""
        self.layers.append(output)
        return output

    def input(self, name: str, *, dtype: npt.DTypeLike, shape: Sequence[str | int]) -> str:
        """Declare an input of the graph; strings in `shape` are free dimensions."""
        self._graph.input.append(_value_info(name, dtype, shape))
        return name

    def output(self, name: str, *, dtype: npt.DTypeLike, shape: Sequence[str | int]) -> None:
        """Declare the value `name` to be an output of the graph."""
        self._graph.output.append(_value_info(name, dtype, shape))

    def weight(self, name: str, array: npt.NDArray[Any], *, by_row: bool = False) -> str:
        """Add a weight and return its name in the graph.

        No weight with other values of its type may have the name. That of several layers is one in
        the file. In the graph it has a name for each, because ONNX Runtime fails to change the type
        of one that several nodes read. A table of which a run reads only a few rows (`by_row`) is
        in a separate file, so that the other file can be read ahead when a session starts.
        """
        array = np.asarray(array, order="C")
        key, digest = (name, array.dtype.str), hashlib.sha256(array.data).digest()
        self._uses[name] += 1
        unique = name if self._uses[name] == 1 else f"{name}.{self._uses[name]}"
        if key in self._stored:
            stored_digest, stored = self._stored[key]
            if stored_digest != digest or tuple(stored.dims) != array.shape:
                raise ValueError(f"the graph already has a weight named {name}")
            tensor = TensorProto()
            tensor.CopyFrom(stored)
            tensor.name = unique
        else:
            file, file_name = self._rows if by_row else self._weights
            tensor = self._tensor(unique, array, file, file_name)
            self._stored[key] = digest, tensor
        if tensor.data_location == TensorProto.EXTERNAL:
            self.external_digests[unique] = digest
        self._graph.initializer.append(tensor)
        return unique

    def constant(self, value: npt.ArrayLike, dtype: npt.DTypeLike) -> str:
        """Add a small constant, once for each value and type, and return its name."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(f"constant_{len(self._constants)}", array)
        return self._constants[key]

    def int64(self, *values: int) -> str:
        """Add a constant int64 [values], such as a shape or axes."""
        return self.constant(values, np.int64)

    @property
    def op(self) -> "Operators":
        """ONNX's own operators as functions: `op.Add(x, y)`."""
        return Operators(self, domain="")

    @property
    def microsoft(self) -> "Operators":
        """ONNX Runtime's own operators as functions: `microsoft.FastGelu(x)`."""
        return Operators(self, domain=MICROSOFT)

    def node(
        self,
        operator: str,
        *inputs: str,
        domain: str = "",
        output: str | None = None,
        **attributes: Any,
    ) -> str:
        """Add a node with one output and return that output's name, which the caller may choose.

        An input that is an empty string is an optional one that is omitted.
        """
        name = self._node_name(operator)
        node = helper.make_node(
            operator, inputs, [output or name], name=name, domain=domain, **attributes
        )
        self._graph.node.append(node)
        return output or name

    def node_with_outputs(
        self, operator: str, *inputs: str, outputs: int, domain: str = "", **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs and return their names; see `node`."""
        name = self._node_name(operator)
        names = [f"{name}.{index}" for index in range(outputs)]
        node = helper.make_node(operator, inputs, names, name=name, domain=domain, **attributes)
        self._graph.node.append(node)
        return names

    def split(self, value: str, sizes: Sequence[int]) -> list[str]:
        """Split a value along its last axis and return the names of the parts."""
        constant = self.constant(sizes, np.int64)
        return self.node_with_outputs("Split", value, constant, outputs=len(sizes), axis=-1)

    def root_mean_square_norm(self, value: str, gain: str, *, epsilon: float) -> str:
        """Divide each row by its root mean square, and multiply it by the gain."""
        return self.op.SimplifiedLayerNormalization(
            value, gain, axis=-1, epsilon=epsilon, stash_type=1
        )

    def attention(self, query: str, key: str, value: str, mask: str, *, heads: int) -> str:
        """Attend, from and to float32 [batch, tokens, width] with heads side by side in `width`.

        Scores are divided by the square root of a head's width. The mask, float32 [batch, 1,
        queries, keys], is added to them: ONNX Runtime would convert one of truth values in each
        layer.
        """
        self._opset = ATTENTION_OPSET
        sizes = {"q_num_heads": heads, "kv_num_heads": heads}
        return self.op.Attention(query, key, value, mask, **sizes)

    def model(self) -> ModelProto:
        """Return the finished model."""
        return helper.make_model(
            self._graph,
            producer_name="embedding-kit",
            ir_version=IR_VERSION,
            opset_imports=[helper.make_opsetid("", self._opset), helper.make_opsetid(MICROSOFT, 1)],
        )

    def _node_name(self, operator: str) -> str:
        self._counts[operator] += 1
        return f"{operator}_{self._counts[operator]}"

    def _tensor(
        self, name: str, array: npt.NDArray[Any], file: BinaryIO, file_name: str
    ) -> TensorProto:
        tensor = TensorProto(
            name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape
        )
        if array.nbytes < INLINE_BYTES:
            tensor.raw_data = array.tobytes()
            return tensor
        file.write(b"\0" * (-file.tell() % ALIGNMENT))
        location = {"location": file_name, "offset": str(file.tell()), "length": str(array.nbytes)}
        file.write(array.data)
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in location.items():
            tensor.external_data.add(key=key, value=value)
        return tensor


def _value_info(name: str, dtype: npt.DTypeLike, shape: Sequence[str | int]) -> Any:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), list(shape)
    )


def graph_digest(model: ModelProto, *, weights: Mapping[str, bytes]) -> bytes:
    """Hash the computation of a graph, independent of the names of its values and nodes.

    Args:
        model: The graph, as the builder makes it: without inner graphs.
        weights: The SHA-256 of each initializer with bytes that are stored outside the graph.
    """
    digest = hashlib.sha256()
    for opset in sorted((entry.domain, entry.version) for entry in model.opset_import):
        digest.update(repr(opset).encode())
    graph = model.graph
    # Inputs are identified by their names, weights by their content, outputs of nodes by the
    # position of the node. An omitted input has no name.
    names = {"": ""}
    for entry in graph.input:
        names[entry.name] = f"input {entry.name}"
    for tensor in graph.initializer:
        names[tensor.name] = f"weight {_tensor_hash(tensor, weights)}"
    for number, node in enumerate(graph.node):
        inputs = [names[name] for name in node.input]
        digest.update(repr((node.domain, node.op_type, inputs, len(node.output))).encode())
        for attribute in sorted(node.attribute, key=lambda attribute: attribute.name):
            digest.update(attribute.SerializeToString(deterministic=True))
        for index, output in enumerate(node.output):
            names[output] = f"node 1.{number}.{index}"
    digest.update(repr([names[entry.name] for entry in graph.output]).encode())
    return digest.digest()


def _tensor_hash(tensor: TensorProto, weights: Mapping[str, bytes]) -> str:
    """Hash a weight's values, inside or outside the graph file."""
    content = weights.get(tensor.name)
    if content is None:
        content = hashlib.sha256(numpy_helper.to_array(tensor).tobytes()).digest()
    head = repr((tensor.data_type, list(tensor.dims))).encode()
    return hashlib.sha256(head + content).hexdigest()
