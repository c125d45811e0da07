"""A finished graph, of which a pass replaces nodes by those of the kit's own operators."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, helper, numpy_helper

#: The domain of the kit's own operators.
DOMAIN = "embedding_kit"


class Rewriting:
    """A graph, and for each of its values the node that makes it and those that read it."""

    def __init__(self, graph: GraphProto) -> None:
        self._graph = graph
        self._constants = {tensor.name: tensor for tensor in graph.initializer}
        self._makers = {name: node for node in graph.node for name in node.output}
        self._readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in graph.node:
            for name in node.input:
                self._readers[name].append(node)
        for entry in graph.output:
            self._readers[entry.name].append(NodeProto())
        #: The constants that a pass adds, by name.
        self._added: dict[str, npt.NDArray[Any]] = {}

    def _value(self, name: str) -> Any:
        return numpy_helper.to_array(self._constants[name])

    def _replace(self, nodes: Mapping[str, Sequence[NodeProto]]) -> None:
        """Put nodes in the place of others, by the first outputs of these.

        What no node reads any more is dropped.
        """
        graph = self._graph
        replaced = {name for group in nodes.values() for node in group for name in node.output}
        backwards: list[NodeProto] = []
        used = {entry.name for entry in graph.output}
        for node in reversed(graph.node):
            present = [] if replaced.intersection(node.output) else [node]
            for needed in reversed(nodes.get(node.output[0], present)):
                if used.intersection(needed.output):
                    used.update(needed.input)
                    backwards.append(needed)
        constants = [tensor for tensor in graph.initializer if tensor.name in used]
        constants += [numpy_helper.from_array(array, name) for name, array in self._added.items()]
        del graph.initializer[:]
        graph.initializer.extend(constants)
        del graph.node[:]
        graph.node.extend(reversed(backwards))


def operator_node(
    operator: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
) -> NodeProto:
    """Return a node of one of the kit's operators, without absent inputs at its end."""
    present = np.flatnonzero([*inputs])[-1] + 1
    name = f"{operator}_{outputs[0]}"
    return helper.make_node(
        operator, inputs[:present], outputs, name=name, domain=DOMAIN, **attributes
    )
