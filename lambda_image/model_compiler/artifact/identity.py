"""Names the vector space of an artifact, from its content alone.

Two artifacts have the same name if and only if both return the same vector for the same text. The
name therefore depends on values and not on files. It does not depend on the model's location, on
how its tensors are sharded or stored, on the truncation that its tokenizer was saved with, or on
the names of the graph's nodes.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from onnx import ModelProto, TensorProto, numpy_helper

__all__ = ["graph_digest", "source_name", "vector_space"]

#: Hexadecimal digits of each hash in the name: 48 bits.
DIGITS = 12


def vector_space(
    *, label: str, source: str, precision: str, graph: bytes, settings: Mapping[str, Any]
) -> str:
    """Return the name of the space of full-size vectors.

    Args:
        label: The model's short name, for readers; it must also depend only on the content.
        source: The `source_name` of the model's own weights.
        precision: `fp32` or `int8`.
        graph: A hash of the compiled graph and its weights.
        settings: The other settings that change vectors: tokenizer, prompts, limits; JSON values.
    """
    fingerprint = hashlib.sha256(graph)
    fingerprint.update(json.dumps(settings, ensure_ascii=False, sort_keys=True).encode())
    return f"{label}@{source}/{precision}/{fingerprint.hexdigest()[:DIGITS]}"


def source_name(digest: bytes) -> str:
    """Return the part of the name that identifies a model's weights, from their hash."""
    return hashlib.sha256(digest).hexdigest()[:DIGITS]


def graph_digest(model: ModelProto, *, weights: Mapping[str, bytes]) -> bytes:
    """Hash the computation of a graph, independent of the names of its values and nodes.

    Args:
        model: The graph, as the builder makes it: without inner graphs.
        weights: The SHA-256 of each initializer whose bytes are stored outside the graph.
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
