"""Edits an export's graph so that the embedder can run it like any other.

The embedder feeds `input_ids` and `attention_mask`, int64 [batch, tokens], and reads float32. Other
inputs are computed inside the graph.
"""

from collections.abc import Iterator

import numpy as np
from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

__all__ = [
    "PREFIX",
    "cast_output",
    "feed_inputs",
    "foreign_operators",
    "is_quantized",
    "multiply_adds",
    "tensors",
]

#: Prefix of every added name, so that none collides with the export's own.
PREFIX = "embedding_kit."
#: The domains whose operators ONNX Runtime has.
DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})


def feed_inputs(model: ModelProto, *, first_position: int) -> None:
    """Leave `input_ids` and `attention_mask` as the only inputs, both int64.

    Args:
        model: The export; it is changed.
        first_position: The position id of a text's first token.
    """
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    kinds = {entry.name: _type(entry) for entry in graph.input if entry.name not in weights}
    nodes = []
    for entry in graph.input:
        if entry.name in {"input_ids", "attention_mask"} and _type(entry) != TensorProto.INT64:
            _rename(graph, entry.name, PREFIX + entry.name)
            entry.type.tensor_type.elem_type = TensorProto.INT64
            nodes.append(_cast(entry.name, PREFIX + entry.name, kinds[entry.name]))
    if "token_type_ids" in kinds:
        # All tokens of a single text have type 0.
        zeros = _name("token_type_ids", kinds)
        nodes.append(
            helper.make_node(
                "Sub", ["input_ids", "input_ids"], [zeros], name=f"{PREFIX}token_type_ids"
            )
        )
        nodes += _casts("token_type_ids", kinds)
    if "position_ids" in kinds:
        # Counted along the mask; a 0 marks padding on the right.
        for name, value in (("axis", 1), ("offset", first_position - 1)):
            graph.initializer.append(numpy_helper.from_array(np.array(value), PREFIX + name))
        nodes += [
            helper.make_node("CumSum", ["attention_mask", f"{PREFIX}axis"], [f"{PREFIX}count"]),
            helper.make_node(
                "Add", [f"{PREFIX}count", f"{PREFIX}offset"], [_name("position_ids", kinds)]
            ),
            *_casts("position_ids", kinds),
        ]
    for name in ("token_type_ids", "position_ids"):
        if name in kinds:
            del graph.input[[entry.name for entry in graph.input].index(name)]
    for number, node in enumerate(nodes):
        graph.node.insert(number, node)


def cast_output(model: ModelProto, name: str) -> str:
    """Return the name of a value that is an output of the graph, as float32."""
    (output,) = (entry for entry in model.graph.output if entry.name == name)
    if _type(output) == TensorProto.FLOAT:
        return name
    model.graph.node.append(_cast(name, f"{PREFIX}float32", TensorProto.FLOAT))
    return f"{PREFIX}float32"


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield every constant of a model, including those in nodes and in their inner graphs."""
    yield from _graph_tensors(model.graph)
    for function in model.functions:
        yield from _node_tensors(function.node)


def foreign_operators(model: ModelProto) -> list[str]:
    """Return the operators that neither ONNX Runtime nor the model itself has."""
    own = {(function.domain, function.name) for function in model.functions}
    found = {
        f"{node.domain}.{node.op_type}"
        for node in _nodes(model)
        if node.domain not in DOMAINS and (node.domain, node.op_type) not in own
    }
    return sorted(found)


def is_quantized(model: ModelProto) -> bool:
    """Return whether a model computes with quantized weights, whatever its file name says."""
    marks = ("Quant", "Integer", "QLinear", "QGemm", "QAttention", "NBits", "Bnb4")
    return any(mark in node.op_type for node in _nodes(model) for mark in marks)


def multiply_adds(model: ModelProto) -> int:
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
    for node in graph.node:
        for number, name in enumerate(node.input):
            if name == old:
                node.input[number] = new
        for inner in _inner_graphs(node):
            _rename(inner, old, new)


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    yield from _graph_nodes(model.graph)
    for function in model.functions:
        for node in function.node:
            yield node
            for inner in _inner_graphs(node):
                yield from _graph_nodes(inner)


def _graph_nodes(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield node
        for inner in _inner_graphs(node):
            yield from _graph_nodes(inner)


def _graph_tensors(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    yield from _node_tensors(graph.node)


def _node_tensors(nodes: "Iterator[NodeProto] | list[NodeProto]") -> Iterator[TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
        for inner in _inner_graphs(node):
            yield from _graph_tensors(inner)


def _inner_graphs(node: NodeProto) -> Iterator[GraphProto]:
    for attribute in node.attribute:
        if attribute.HasField("g"):
            yield attribute.g
        yield from attribute.graphs
