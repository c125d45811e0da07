"""Runs a graph with AttentionRows computed in float32, to test how its nodes are joined."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnx import ModelProto, NodeProto, helper

from embedder.core import session
from model_compiler.graph.attention_rows import OPERATOR

Array = npt.NDArray[Any]


def run(path: Path, inputs: Mapping[str, Array]) -> Array:
    """Return the output of the graph in a file; ONNX Runtime runs the nodes between attention."""
    model = onnx.load(path, load_external_data=False)
    values = {**inputs}
    for is_attention, nodes in groupby(model.graph.node, lambda node: node.op_type == OPERATOR):
        if is_attention:
            for node in nodes:
                arrays = [values[name] for name in node.input]
                numbers = {
                    entry.name: helper.get_attribute_value(entry) for entry in node.attribute
                }
                values[node.output[0]] = attend(*arrays, **numbers)
        else:
            values |= _run_nodes(path, model, list(nodes), values)
    return values[model.graph.output[0].name]


def attend(
    query: Array,
    key: Array,
    value: Array,
    bias: Array,
    *,
    heads: int,
    kv_heads: int,
    factor: float | None = None,
) -> Array:
    """Attend as the operator is defined, without its rounding."""
    queries = _by_head(query, heads)
    keys, values = (
        np.repeat(_by_head(rows, kv_heads), heads // kv_heads, axis=-3) for rows in (key, value)
    )
    if factor is None:
        factor = queries.shape[-1] ** -0.5
    scores = queries @ np.swapaxes(keys, -1, -2) * factor
    scores = scores + (bias if bias.ndim > query.ndim else np.expand_dims(bias, -3))
    shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
    mixed = shares / shares.sum(axis=-1, keepdims=True) @ values
    return np.swapaxes(mixed, -2, -3).reshape(query.shape).astype(np.float32)


def _by_head(rows: Array, heads: int) -> Array:
    """Take [..., rows, heads * width] to [..., heads, rows, width]."""
    return np.swapaxes(rows.reshape(*rows.shape[:-1], heads, -1), -2, -3)


def _run_nodes(
    path: Path, model: ModelProto, nodes: Sequence[NodeProto], values: Mapping[str, Array]
) -> dict[str, Array]:
    """Return what some of the model's nodes compute from the values that are known."""
    outputs = [name for node in nodes for name in node.output]
    read = {name for node in nodes for name in node.input if name}
    constants = [tensor for tensor in model.graph.initializer if tensor.name in read]
    inputs = read - {*outputs} - {tensor.name for tensor in constants}
    types = {name: helper.np_dtype_to_tensor_dtype(values[name].dtype) for name in inputs}
    graph = helper.make_graph(
        nodes,
        "nodes",
        [helper.make_tensor_value_info(name, types[name], None) for name in inputs],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        constants,
    )
    opsets = [*model.opset_import]
    # Next to the external weights.
    file = path.with_name("nodes.onnx")
    file.write_bytes(
        helper.make_model(
            graph, opset_imports=opsets, ir_version=model.ir_version
        ).SerializeToString()
    )
    options = session.session_options("none", threads=1)
    options.register_custom_ops_library(session._LIBRARY)
    runner = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    arrays = runner.run(outputs, {name: values[name] for name in inputs})
    return dict(zip(outputs, arrays, strict=True))
