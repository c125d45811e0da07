"""Makes the attention of int8 layers in a finished graph nodes of the operator `AttentionRows`.

It multiplies queries by keys, and shares by values, in int8 with a scale for each row of a head. In
a layer that is kept in float32, and in the forms that it does not express, attention stays as it
is: `GroupQueryAttention`, which attends to earlier tokens alone. So does attention to keys that are
rotated with a bias: trained, it is up to hundreds of times larger than the rest of a key, for which
the scale of a row is then too coarse. Without a rotation, softmax cancels the bias of the keys.

The families have it in four forms:

- `Attention`, with a bias that is the same for all queries of a text (BERT), or not (ModernBERT
  within its window);
- `MultiHeadAttention` with the mask as one more column of each head (`FullAttention`);
- `MultiHeadAttention` with a bias by distance and a mask (T5, MPNet, Jina BERT), which become one;
- a product, a sum, a softmax and a product (the two EmbeddingGemmas).
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import GraphProto, NodeProto, TensorProto, helper

from model_compiler.graph.rewriting import Rewriting, operator_node

OPERATOR = "AttentionRows"
#: The operator of linear layers, which read what is attended to.
_LINEAR = "LinearRows"
#: The place of its bias among its inputs.
_BIAS = 4
#: What `MultiHeadAttention` adds to masked scores by default.
_LOWEST = -10_000.0
#: Operators that change no component of their first input.
_MOVING = frozenset({"Gather", "Reshape", "Slice", "Transpose"})


def rewrite(graph: GraphProto) -> None:
    """Replace the attention of the layers of which the linear ones have been replaced."""
    _Attentions(graph).replace()


@dataclass(slots=True)
class _Attention:
    """The inputs and attributes of a node."""

    #: Float32 [..., rows, heads * width], and twice [..., keys, key_heads * width].
    query: str
    key: str
    value: str
    #: Added to the scores, float32 [..., rows, keys] or [..., heads, rows, keys].
    bias: str
    heads: int = 1
    key_heads: int = 1
    #: By what the scores are multiplied; None: divided by the square root of a head's width.
    factor: float | None = None
    #: The nodes that make inputs that the graph does not have.
    added: list[NodeProto] = field(default_factory=list)

    def nodes(self, output: str) -> list[NodeProto]:
        """Return the nodes that compute the output."""
        attributes: dict[str, Any] = {"heads": self.heads, "kv_heads": self.key_heads}
        if self.factor is not None:
            attributes["factor"] = self.factor
        inputs = [self.query, self.key, self.value, self.bias]
        return [*self.added, operator_node(OPERATOR, inputs, [output], **attributes)]


class _Attentions(Rewriting):
    """The attention of all layers of a graph."""

    def replace(self) -> None:
        """Replace all that the operator can express."""
        forms = {
            "Attention": self._by_heads,
            "MatMul": self._by_products,
            "MultiHeadAttention": self._by_microsoft,
        }
        #: The values that new nodes make.
        self._made: set[str] = set()
        nodes = {}
        for node in self._graph.node:
            output = node.output[0]
            if node.op_type in forms and self._is_read_in_int8(output):
                attention = forms[node.op_type](node)
                if attention is not None and not self._is_rotated_with_bias(attention.key):
                    nodes[output] = attention.nodes(output)
        self._replace(nodes)

    def _is_read_in_int8(self, name: str) -> bool:
        return any(
            node.op_type == _LINEAR
            or (node.op_type in _MOVING and self._is_read_in_int8(node.output[0]))
            for node in self._readers[name]
        )

    def _is_rotated_with_bias(self, name: str) -> bool:
        is_rotated, node = False, self._makers.get(name)
        while node is not None and node.op_type in {*_MOVING, "RotaryEmbedding"}:
            is_rotated |= node.op_type == "RotaryEmbedding"
            node = self._makers.get(node.input[0])
        if node is None or node.op_type != _LINEAR:
            return False
        return is_rotated and any(node.input[_BIAS : _BIAS + 1])

    def _by_heads(self, node: NodeProto) -> _Attention | None:
        """Read `Attention` as `GraphBuilder.attention` makes it."""
        attributes = _attributes(node)
        if attributes.keys() != {"q_num_heads", "kv_num_heads"} or len(node.input) != 4:
            return None
        query, key, value, bias = node.input
        expanded = self._chain(bias, "Expand")
        shape = self._chain(expanded[0].input[1], "Concat") if expanded else None
        # A shape that ends with 1 leaves the keys as they are, and other axes may be 1.
        if expanded and shape and self._numbers(shape[0].input[-1])[-1:] == [1]:
            bias = expanded[0].input[0]
        heads, key_heads = attributes["q_num_heads"], attributes["kv_num_heads"]
        return _Attention(query, key, value, bias, heads, key_heads)

    def _by_products(self, node: NodeProto) -> _Attention | None:
        """Read a product with the softmax of another product and a bias."""
        chain = self._chain(node.input[0], "Softmax", "Add", "FusedMatMul")
        if chain is None:
            return None
        softmax, added, product = chain
        if _attributes(softmax) != {"axis": -1} or _attributes(product) != {"transB": 1}:
            return None
        query, key = product.input
        return _Attention(query, key, node.input[1], added.input[1], factor=1.0)

    def _by_microsoft(self, node: NodeProto) -> _Attention | None:
        """Read `MultiHeadAttention` with a column for the mask, or with a mask and a bias."""
        attributes = _attributes(node)
        if not attributes.keys() <= {"num_heads", "scale", "mask_filter_value"}:
            return None
        heads, factor = attributes["num_heads"], attributes.get("scale")
        query, key, value, *masks = node.input
        attention = _Attention(query, key, value, "", heads, heads, factor)
        if len(masks) == 3 and not masks[0]:
            self._mask_bias(
                attention, *masks[1:], lowest=attributes.get("mask_filter_value", _LOWEST)
            )
            return attention
        chains = [self._chain(name, "Reshape", "Concat", "Reshape") for name in (query, key)]
        if masks or None in chains:
            return None
        (_, _, query_apart), (_, wider, key_apart) = filter(None, chains)
        column = self._chain(wider.input[1], "Expand", "Unsqueeze")
        if column is None:
            return None
        attention.query, attention.key = query_apart.input[0], key_apart.input[0]
        self._share(attention)
        key_bias = column[-1].input[0]
        inputs = [key_bias, self._add(f"{OPERATOR}.rows", [1])]
        attention.bias = self._make(attention, "Unsqueeze", inputs, f"{key_bias}.by_row")
        return attention

    def _share(self, attention: _Attention) -> None:
        """Let query heads read the keys and values that were repeated for them."""
        chains = [
            self._chain(name, "Reshape", "Expand", "Reshape")
            for name in (attention.key, attention.value)
        ]
        if None in chains:
            return
        (key, repeated, key_apart), (value, _, value_apart) = filter(None, chains)
        *_, times, _ = self._numbers(repeated.input[1])
        attention.key_heads = attention.heads // times
        attention.key, attention.value = (
            self._make(
                attention, "Reshape", [apart.input[0], beside.input[1]], f"{apart.output[0]}.shared"
            )
            for beside, apart in ((key, key_apart), (value, value_apart))
        )

    def _mask_bias(self, attention: _Attention, mask: str, bias: str, *, lowest: float) -> None:
        """Add `lowest` to the bias, float32 [1, heads, rows, keys], where the mask is 0.

        The mask is int32 [batch, keys]. A sum takes less memory than a choice by `Where`, which
        has another tensor of the output's size.
        """
        axes = self._add(f"{OPERATOR}.apart", [1, 2])
        one = self._add(f"{OPERATOR}.one", np.int32(1))
        masked = self._add(f"{OPERATOR}.lowest", np.float32(lowest))
        padding = self._make(attention, "Sub", [one, mask], f"{mask}.padding")
        padding = self._make(attention, "Cast", [padding], f"{padding}.float", to=TensorProto.FLOAT)
        added = self._make(attention, "Mul", [padding, masked], f"{mask}.bias")
        apart = self._make(attention, "Unsqueeze", [added, axes], f"{added}.apart")
        attention.bias = self._make(attention, "Add", [bias, apart], f"{bias}.masked")

    def _make(
        self,
        attention: _Attention,
        operator: str,
        inputs: list[str],
        output: str,
        **attributes: Any,
    ) -> str:
        """Add a node before that of the attention, if no other has it before, and return its name.

        Its output has the same name.
        """
        if output not in self._made:
            self._made.add(output)
            node = helper.make_node(operator, inputs, [output], name=output, **attributes)
            attention.added.append(node)
        return output

    def _add(self, name: str, numbers: npt.ArrayLike) -> str:
        """Add a constant, and return its name."""
        self._added[name] = np.asarray(numbers)
        return name

    def _chain(self, name: str, *operators: str) -> list[NodeProto] | None:
        """Return the node that makes a value, and those that make the first inputs before it.

        It is None if their operators are others than these.
        """
        chain = []
        for operator in operators:
            node = self._makers.get(name)
            if node is None or node.op_type != operator:
                return None
            chain.append(node)
            name = node.input[0]
        return chain

    def _numbers(self, name: str) -> list[int]:
        """Return the integers of a constant, or none of another value."""
        return self._value(name).tolist() if name in self._constants else []


def _attributes(node: NodeProto) -> dict[str, Any]:
    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
