"""Makes each int8 linear layer of a finished graph one node of the kit's operator `LinearRows`.

`quantization` builds such a layer of standard operators, each a pass over memory: together they
take as long as the products. `LinearRows` computes the same of a row while it is in the cache:
scale, rounding, product, outliers, bias, residual, GELU, and the parts of a Split. Results differ
by the rounding of floats alone.

What does not match stays as it is: groups of rows, other activations, a width that is no multiple
of 16. Layers that share quantized rows each quantize them, which is a few percent of their
products.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from onnx import GraphProto, NodeProto

from model_compiler.graph.quantization import ZERO_POINT
from model_compiler.graph.rewriting import Rewriting, operator_node

OPERATOR = "LinearRows"
PRODUCT = "MatMulIntegerToFloat"
#: The most outputs of a node, and what the width of each is a multiple of.
OUTPUTS, VECTOR = 3, 16
#: The operator's numbers of activations; QuickGelu has a factor of 1, which makes it SiLU.
_ACTIVATIONS = {"FastGelu": 1, "QuickGelu": 2}
#: Operators that compute each component from those at its place.
_BY_COMPONENT = frozenset(
    {"Add", "BiasGelu", "FastGelu", "Gelu", "Mul", "QuickGelu", "Relu", "Sum"}
)


def rewrite(graph: GraphProto) -> bool:
    """Replace the layers of the graph, and return whether it has any."""
    return _LinearLayers(graph).replace()


@dataclass(slots=True)
class _Layer:
    """A linear layer, and the inputs and attributes of its node."""

    product: NodeProto
    columns: int
    #: The value that is quantized, float32 [..., inner], and the scale of its rows.
    quantized: str
    scale: str
    #: The rows with their outliers, float32 [..., inner + outliers].
    rows: str
    #: The last node that the layer takes the place of, and its outputs.
    last: NodeProto
    outputs: list[str]
    #: Constants [outliers, columns] and [columns].
    outliers: str = ""
    bias: str = ""
    #: What is added, times the gain [columns], or multiplied: float32 [..., columns].
    residual: str = ""
    gain: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def output(self) -> str:
        """The value that the layer computes."""
        return self.outputs[0]

    def node(self) -> NodeProto:
        """Return the node."""
        weights, scale = self.product.input[1], self.product.input[3]
        inputs = [self.rows, weights, scale, self.outliers, self.bias, self.residual, self.gain]
        return operator_node(OPERATOR, inputs, self.outputs, **self.attributes)


class _LinearLayers(Rewriting):
    """The linear layers of a graph."""

    def __init__(self, graph: GraphProto) -> None:
        super().__init__(graph)
        #: Values [..., columns] that are computed from products, component by component.
        self._columns: dict[str, int] = {}
        for node in graph.node:
            if node.op_type == PRODUCT:
                self._columns[node.output[0]] = self._constants[node.input[1]].dims[1]
            elif node.op_type in _BY_COMPONENT and node.input[0] in self._columns:
                self._columns[node.output[0]] = self._columns[node.input[0]]
        #: The first outputs of the nodes that layers take the place of.
        self._taken: set[str] = set()
        self._layers = [
            layer for node in graph.node if node.op_type == PRODUCT for layer in self._layer(node)
        ]
        for layer in self._layers:
            self._scale(layer)
        # From the last on: it decides whether a Split before it is of its outliers.
        for layer in reversed(self._layers):
            self._extend(layer)

    def replace(self) -> bool:
        """Replace the layers, and return whether there are any."""
        self._replace({layer.last.output[0]: [layer.node()] for layer in self._layers})
        return bool(self._layers)

    def _layer(self, product: NodeProto) -> Iterator[_Layer]:
        """Yield a product of rows of `quantize` as a layer, without what follows."""
        quantizing, columns = self._makers[product.input[0]], self._columns[product.output[0]]
        if quantizing.op_type != "QuantizeLinear" or columns % VECTOR:
            return
        rows, scale = quantizing.input[:2]
        attributes: dict[str, Any] = {"scaled": 0}
        zero_point = int(self._value(product.input[4]))
        if zero_point != ZERO_POINT:
            least = self._value(self._makers[scale].input[1])
            attributes |= {"zero_point": zero_point, "least": float(least)}
        yield _Layer(
            product, columns, rows, scale, rows, product, [*product.output], attributes=attributes
        )

    def _scale(self, layer: _Layer) -> None:
        """Multiply a product by the scale of its rows, if the graph does so next.

        A gated block leaves out the scale of its second product, and multiplies by it at its end.
        With it from the start, it is a part of the scale of the last rows.
        """
        multiplied = self._next(layer, "Mul")
        if multiplied is None:
            return
        (scale,) = {*multiplied.input} - {layer.output}
        if scale != layer.scale:
            both, gated = self._makers.get(scale), self._makers[layer.quantized]
            factors = [
                factor
                for factor in self._layers
                if self._next(factor, "Mul") == gated
                and both is not None
                and {*both.input} == {layer.scale, factor.scale}
            ]
            if not factors:
                return
            del factors[0].attributes["scaled"]
        del layer.attributes["scaled"]
        self._take(layer, multiplied)

    def _extend(self, layer: _Layer) -> None:
        """Add what follows a product to its layer, in the order in which the operator computes."""
        while (added := self._next(layer, "Add", "Sum")) and self._add(layer, added):
            self._take(layer, added)
        activation = self._next(layer, *_ACTIVATIONS)
        if activation is not None and not (layer.bias and activation.input[1:]):
            layer.bias = layer.bias or "".join(activation.input[1:])
            layer.attributes["activation"] = _ACTIVATIONS[activation.op_type]
            self._take(layer, activation)
        multiplied = self._next(layer, "Mul")
        if multiplied is not None and not layer.residual:
            (factor,) = {*multiplied.input} - {layer.output}
            if self._columns.get(factor) == layer.columns:
                layer.residual = factor
                layer.attributes["product"] = 1
                self._take(layer, multiplied)
        split = self._next(layer, "Split")
        if split is not None:
            self._split(layer, split)

    def _add(self, layer: _Layer, added: NodeProto) -> bool:
        """Take all terms of a sum, or none."""
        inputs = {"bias": layer.bias, "outliers": layer.outliers, "residual": layer.residual}
        rows, gain = layer.rows, layer.gain
        for name in added.input:
            maker = self._makers.get(name)
            if name == layer.output:
                continue
            if maker is None:
                key, constant = "bias", name
            elif self._is_exact(maker, layer):
                rows = self._makers[layer.quantized].input[0]
                key, constant = "outliers", maker.input[1]
            elif maker.op_type == "Mul" and self._is_vector(maker.input[1], layer.columns):
                key, (constant, gain) = "residual", maker.input
            else:
                key, constant = "residual", name
            if inputs[key] or (key == "bias" and not self._is_vector(constant, layer.columns)):
                return False
            inputs[key] = constant
        layer.rows, layer.gain = rows, gain
        layer.bias, layer.outliers, layer.residual = inputs.values()
        if layer.outliers:
            self._taken.add(layer.quantized)
        return True

    def _split(self, layer: _Layer, split: NodeProto) -> None:
        """Take a split of columns into parts of whole vectors, and the biases of the parts."""
        (axis,) = (entry.i for entry in split.attribute if entry.name == "axis")
        if axis != -1 or len(split.output) > OUTPUTS:
            return
        widths = self._value(split.input[1]).tolist()
        if any(width % VECTOR for width in widths):
            return
        layer.attributes["widths"] = widths
        self._take(layer, split)
        if layer.bias or {"activation", "product"} & {*layer.attributes}:
            return
        biases = [np.zeros(width, np.float32) for width in widths]
        for number, name in enumerate(split.output):
            added = self._readers[name][0] if len(self._readers[name]) == 1 else None
            if added is not None and added.op_type == "Add":
                (bias,) = {*added.input} - {name}
                if self._is_vector(bias, widths[number]) and self._constants[bias].raw_data:
                    biases[number], layer.outputs[number] = self._value(bias), added.output[0]
        if [*split.output] != layer.outputs:
            layer.bias = f"{layer.output}.joined"
            self._added[layer.bias] = np.concatenate(biases)

    def _next(self, layer: _Layer, *operators: str) -> NodeProto | None:
        """Return the only reader of what the layer computes, if its operator is one of these."""
        if len(layer.outputs) > 1 or len(self._readers[layer.output]) > 1:
            return None
        (node,) = self._readers[layer.output]
        is_free = node.op_type in operators and node.output[0] not in self._taken
        return node if is_free else None

    def _take(self, layer: _Layer, node: NodeProto) -> None:
        """Let the layer take the place of the node that follows."""
        self._taken.add(node.output[0])
        layer.last, layer.outputs = node, [*node.output]

    def _is_exact(self, node: NodeProto, layer: _Layer) -> bool:
        """Return whether a node multiplies the outliers of the layer's rows."""
        split = self._makers.get(layer.quantized)
        return (
            node.op_type == "MatMul"
            and split is not None
            and split.op_type == "Split"
            and [layer.quantized, node.input[0]] == [*split.output]
        )

    def _is_vector(self, name: str, columns: int) -> bool:
        return name in self._constants and [*self._constants[name].dims] == [columns]
