"""Names the vector space of an artifact, from its content alone.

Two artifacts have the same name when, and only when, the same text would get the same vector from
both. So the name rests on values and not on files: not on where a model was found, how its tensors
were sharded or stored, which truncation its tokenizer was saved with, or how a graph's nodes are
called.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

__all__ = ["graph_digest", "source_name", "vector_space"]

#: How many hexadecimal digits of each hash stand in the name: 48 bits.
DIGITS = 12


def vector_space(
    *, label: str, source: str, precision: str, graph: bytes, settings: Mapping[str, Any]
) -> str:
    """Return the name of the space of full-size vectors.

    Args:
        label: the model's short name, for people; it must follow from the content too.
        source: what `source_name` makes of the model's own weights.
        precision: `fp32` or `int8`.
        graph: a hash of the compiled graph and its weights.
        settings: what else decides on vectors: tokenizer, prompts, limits. Values of JSON.
    """
    fingerprint = hashlib.sha256(graph)
    fingerprint.update(json.dumps(settings, ensure_ascii=False, sort_keys=True).encode())
    return f"{label}@{source}/{precision}/{fingerprint.hexdigest()[:DIGITS]}"


def source_name(digest: bytes) -> str:
    """Return how a name tells a model's own weights, of which `digest` is a hash."""
    return hashlib.sha256(digest).hexdigest()[:DIGITS]


def graph_digest(model: ModelProto, *, weights: Mapping[str, bytes]) -> bytes:
    """Hash what a graph computes, whatever its values and nodes are called.

    Args:
        model: the graph.
        weights: for each initializer whose bytes stand outside the graph, their SHA-256.
    """
    digest = hashlib.sha256()
    for opset in sorted((entry.domain, entry.version) for entry in model.opset_import):
        digest.update(repr(opset).encode())
    _hash_graph(digest, model.graph, weights, {"": ""})
    return digest.digest()


def _hash_graph(
    digest: "hashlib._Hash",
    graph: GraphProto,
    weights: Mapping[str, bytes],
    outer: Mapping[str, str],
) -> None:
    # A value is called by what it is: an input by its name, a weight by its content, a node's
    # output by the node's place.
    names = dict(outer)
    for entry in graph.input:
        names[entry.name] = f"input {entry.name}"
    for tensor in graph.initializer:
        names[tensor.name] = f"weight {_tensor_hash(tensor, weights)}"
    for number, node in enumerate(graph.node):
        inputs = [names.get(name, name) for name in node.input]
        digest.update(repr((node.domain, node.op_type, inputs, len(node.output))).encode())
        for attribute in sorted(node.attribute, key=lambda attribute: attribute.name):
            if attribute.HasField("g"):
                digest.update(attribute.name.encode())
                _hash_graph(digest, attribute.g, weights, names)
            else:
                digest.update(attribute.SerializeToString(deterministic=True))
        _name_outputs(names, node, number, depth=len(outer))
    digest.update(repr([names[entry.name] for entry in graph.output]).encode())


def _name_outputs(names: dict[str, str], node: NodeProto, number: int, *, depth: int) -> None:
    for index, output in enumerate(node.output):
        if output:
            names[output] = f"node {depth}.{number}.{index}"


def _tensor_hash(tensor: TensorProto, weights: Mapping[str, bytes]) -> str:
    """Hash a weight's values, wherever they stand."""
    content = weights.get(tensor.name)
    if content is None:
        content = hashlib.sha256(numpy_helper.to_array(tensor).tobytes()).digest()
    head = repr((tensor.data_type, list(tensor.dims))).encode()
    return hashlib.sha256(head + content).hexdigest()
