"""A feed-forward layer of experts (Shazeer et al., 2017, https://arxiv.org/abs/1701.06538).

A router chooses a few experts for each token, and the layer's result is the sum of theirs, times
their shares. The tokens are sorted by expert, so that each expert multiplies all its tokens at
once, and only these. A token's result depends on no other token: not on how many share its expert.
"""

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from model_compiler.graph.bases.encoder import activate
from model_compiler.graph.builder import GraphBuilder
from model_compiler.graph.quantization import Channels, Floats, linear_by_group, strong_inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How a layer chooses experts.

    Attributes:
        experts: The number of experts.
        chosen: How many of them each token has.
        normalized: Whether the shares of a token's experts are divided by their sum. Otherwise
            they are those of the softmax over all experts.
    """

    experts: int
    chosen: int
    normalized: bool


def mixture(
    builder: GraphBuilder,
    hidden: str,
    routing: Routing,
    *,
    router: Floats,
    up: Floats,
    down: Floats,
    activation: str,
    name: str,
    channels: Channels,
) -> str:
    """Add the layer, from float32 [batch, tokens, width] to the same shape, without its bias.

    The router, [experts, width], is in float32 for every precision. Of experts with equal shares,
    the first is chosen. The experts' weights to their wide side and from it are [experts, wide,
    width]; the `channels` of `hidden` are multiplied in float32.
    """
    op, chosen = builder.op, routing.chosen
    width = router.shape[1]
    tokens = op.Reshape(hidden, builder.int64(-1, width))
    scores = op.MatMul(tokens, builder.weight(f"{name}router", router.T))
    shares, experts = builder.node_with_outputs(
        "TopK", op.Softmax(scores, axis=-1), builder.int64(chosen), outputs=2
    )
    if routing.normalized:
        shares = op.Div(shares, op.ReduceSum(shares, builder.int64(-1), keepdims=1))
    # Choices are in the order of tokens. [experts, choices]: whether a choice is of an expert.
    numbers = builder.constant(np.arange(routing.experts)[:, None], np.int64)
    of_expert = op.Equal(op.Reshape(experts, builder.int64(1, -1)), numbers)
    one = builder.int64(1)
    sizes = op.ReduceSum(op.Cast(of_expert, to=TensorProto.INT64), one, keepdims=0)
    # The choices in the order of experts, and the place of each choice in it.
    order = op.Gather(op.NonZero(of_expert), builder.constant(1, np.int64), axis=0)
    places = op.Range(builder.constant(0, np.int64), op.Size(order), builder.constant(1, np.int64))
    place = op.ScatterElements(order, order, places, axis=0)
    rows = op.Gather(tokens, op.Div(order, builder.constant(chosen, np.int64)), axis=0)

    strong, up, down = _strong_first(up, down)
    ups = {f"{name}up.{number}": weight for number, weight in enumerate(up)}
    widened = linear_by_group(builder, rows, ups, sizes, channels=channels)
    widened = activate(builder, widened, activation)
    downs = {f"{name}down.{number}": weight.T for number, weight in enumerate(down)}
    narrowed = linear_by_group(builder, widened, downs, sizes, channels=strong)

    results = op.Reshape(op.Gather(narrowed, place, axis=0), builder.int64(-1, chosen, width))
    weighted = op.Mul(results, op.Unsqueeze(shares, builder.int64(-1)))
    return op.Reshape(op.ReduceSum(weighted, one, keepdims=0), op.Shape(hidden))


def _strong_first(up: Floats, down: Floats) -> tuple[Channels, Floats, Floats]:
    """Sort the neurons of each expert so that those with large outgoing weights are the first.

    Returns the channels of these, which are the same in all experts then, and both weights.
    """
    orders = []
    for weight in down:
        strong = strong_inputs(weight.T)
        rest = np.setdiff1d(np.arange(len(weight)), strong)
        orders.append(np.concatenate([strong, rest]))
    order = np.array(orders)[:, :, None]
    return (
        np.arange(len(strong)),
        np.take_along_axis(up, order, axis=1),
        np.take_along_axis(down, order, axis=1),
    )
