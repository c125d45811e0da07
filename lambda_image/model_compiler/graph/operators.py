"""The second graph of an int8 model, with nodes of the kit's own operators.

It needs a library (`embedder.core.session`), so it is an artifact's second; the first needs ONNX
Runtime alone. Both read the same external weights. What no operator expresses stays as it is.
"""

from onnx import ModelProto, helper

from model_compiler.graph import attention_rows, linear_rows
from model_compiler.graph.builder import OPSET
from model_compiler.graph.rewriting import DOMAIN


def with_operators(model: ModelProto) -> ModelProto | None:
    """Return a copy of the graph with the operators; None if it has no layer for them."""
    rewritten = ModelProto()
    rewritten.CopyFrom(model)
    graph = rewritten.graph
    if not linear_rows.rewrite(graph):
        return None
    attention_rows.rewrite(graph)
    if all(node.op_type != "Attention" for node in graph.node):
        # The only one that needs a later opset, which starts slower.
        (opset,) = (entry for entry in rewritten.opset_import if not entry.domain)
        opset.version = OPSET
    rewritten.opset_import.append(helper.make_opsetid(DOMAIN, 1))
    return rewritten
