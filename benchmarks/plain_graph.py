"""EmbeddingGemma as an exporter writes it: one node for each elementary step, nothing fused.

Where torch is not installed, this graph stands for its export: the same steps in the same number as
`torch.onnx.export(dynamo=True)` gives (some 2,900 nodes once quantized), in the same order.
"""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto
from safetensors.numpy import load_file

from model_compiler.files.config import ConfigFile
from model_compiler.graph.architectures import gemma3
from model_compiler.graph.builder import GraphBuilder

__all__ = ["write_plain_graph"]


def write_plain_graph(source: Path, target: Path) -> None:
    """Write `model.onnx`, fp32, of a sentence-transformers folder of EmbeddingGemma's family."""
    config = ConfigFile(source / "config.json")
    config.string("model_type")
    with (target / "model.onnx.data").open("wb") as weights:
        builder = GraphBuilder(name="plain", weights=weights, weights_file="model.onnx.data")
        _Plain(gemma3.parse(config), source, builder).build()
    (target / "model.onnx").write_bytes(builder.model().SerializeToString())


class _Plain:
    def __init__(self, config: gemma3.Gemma3Config, source: Path, builder: GraphBuilder) -> None:
        self._config = config
        self._builder = builder
        self._tensors = load_file(source / "model.safetensors")
        self._dense = [
            load_file(source / name / "model.safetensors")["linear.weight"]
            for name in ("2_Dense", "3_Dense")
        ]

    def build(self) -> None:
        config, node, builder = self._config, self._builder.node, self._builder
        for name in ("input_ids", "attention_mask"):
            builder.input(name, dtype=np.int64, shape=["batch", "tokens"])
        table = builder.weight("embed_tokens", self._tensors["embed_tokens.weight"])
        hidden = node("Gather", [table, "input_ids"])
        hidden = node("Mul", [hidden, self._float(config.hidden_size**0.5)])
        self._prepare()
        for layer, sliding in enumerate(config.sliding):
            name = f"layers.{layer}."
            value = self._norm(hidden, f"{name}input_layernorm.weight")
            value = self._attention(value, f"{name}self_attn.", sliding=sliding)
            value = self._norm(value, f"{name}post_attention_layernorm.weight")
            hidden = node("Add", [hidden, value])
            value = self._norm(hidden, f"{name}pre_feedforward_layernorm.weight")
            value = self._feed_forward(value, f"{name}mlp.")
            value = self._norm(value, f"{name}post_feedforward_layernorm.weight")
            hidden = node("Add", [hidden, value])
        hidden = self._norm(hidden, "norm.weight")
        weighted = node("Mul", [hidden, node("Unsqueeze", [self._mask, self._int64(2)])])
        total = node("ReduceSum", [weighted, self._int64(1)], keepdims=0)
        count = node("ReduceSum", [self._mask, self._int64(1)], keepdims=1)
        value = node("Div", [total, count])
        for number, weight in enumerate(self._dense):
            value = node("MatMul", [value, builder.weight(f"dense.{number}", weight.T)])
        length = node("ReduceL2", [value, self._int64(-1)], keepdims=1)
        length = node("Max", [length, self._float(1e-12)])
        node("Div", [value, length], output="sentence_embedding")
        builder.output("sentence_embedding", dtype=np.float32, shape=["batch", len(self._dense[1])])

    def _prepare(self) -> None:
        config, node, builder = self._config, self._builder.node, self._builder
        self._mask = node("Cast", ["attention_mask"], to=TensorProto.FLOAT)
        shape = node("Shape", ["input_ids"])
        self._batch, self._tokens = (
            node("Gather", [shape, self._int64(axis)]) for axis in range(2)
        )
        scalars = [builder.constant(number, np.int64) for number in (0, 1)]
        places = node("Range", [scalars[0], node("Squeeze", [self._tokens]), scalars[1]])
        places = node("Cast", [places], to=TensorProto.FLOAT)
        missing = node("Sub", [self._float(1), self._mask])
        padding = node("Unsqueeze", [node("Mul", [missing, self._float(-1e9)]), self._int64(1, 2)])
        column = node("Unsqueeze", [places, self._int64(1)])
        distance = node("Abs", [node("Sub", [column, places])])
        far = node("Cast", [node("Greater", [distance, self._float(config.reach)])], to=1)
        far = node("Mul", [far, self._float(-1e9)])
        self._bias = {False: padding, True: node("Add", [padding, far])}
        self._rope: dict[bool, tuple[str, str]] = {}
        for sliding, base in ((True, config.sliding_rope_base), (False, config.full_rope_base)):
            exponents = np.arange(0, config.head_size, 2) / config.head_size
            frequencies = builder.weight(
                f"frequencies.{sliding}", (1.0 / base**exponents).astype(np.float32)[None]
            )
            angles = node("MatMul", [column, frequencies])
            angles = node("Concat", [angles, angles], axis=-1)
            self._rope[sliding] = (node("Cos", [angles]), node("Sin", [angles]))

    def _attention(self, value: str, name: str, *, sliding: bool) -> str:
        config, node = self._config, self._builder.node
        size = config.head_size
        query = self._heads(self._linear(value, f"{name}q_proj.weight"), config.heads)
        key = self._heads(self._linear(value, f"{name}k_proj.weight"), 1)
        other = self._heads(self._linear(value, f"{name}v_proj.weight"), 1)
        query = self._rotated(self._norm(query, f"{name}q_norm.weight"), sliding=sliding)
        key = self._rotated(self._norm(key, f"{name}k_norm.weight"), sliding=sliding)
        key, other = self._repeated(key), self._repeated(other)
        scores = node("MatMul", [query, node("Transpose", [key], perm=[0, 1, 3, 2])])
        scores = node("Mul", [scores, self._float(config.query_scalar**-0.5)])
        scores = node("Softmax", [node("Add", [scores, self._bias[sliding]])], axis=-1)
        mixed = node("Transpose", [node("MatMul", [scores, other])], perm=[0, 2, 1, 3])
        mixed = node("Reshape", [mixed, self._int64(0, 0, config.heads * size)])
        return self._linear(mixed, f"{name}o_proj.weight")

    def _heads(self, value: str, heads: int) -> str:
        shape = self._int64(0, 0, heads, self._config.head_size)
        value = self._builder.node("Reshape", [value, shape])
        return self._builder.node("Transpose", [value], perm=[0, 2, 1, 3])

    def _rotated(self, value: str, *, sliding: bool) -> str:
        node, half = self._builder.node, self._config.head_size // 2
        axis, end = self._int64(-1), self._int64(2 * half)
        left = node("Slice", [value, self._int64(0), self._int64(half), axis])
        right = node("Slice", [value, self._int64(half), end, axis])
        turned = node("Concat", [node("Neg", [right]), left], axis=-1)
        cosines, sines = self._rope[sliding]
        return node("Add", [node("Mul", [value, cosines]), node("Mul", [turned, sines])])

    def _repeated(self, value: str) -> str:
        node, heads, size = self._builder.node, self._config.heads, self._config.head_size
        shape = node(
            "Concat",
            [self._batch, self._int64(1, heads), self._tokens, self._int64(size)],
            axis=0,
        )
        value = node("Expand", [node("Unsqueeze", [value, self._int64(2)]), shape])
        return node("Reshape", [value, self._int64(0, heads, -1, size)])

    def _feed_forward(self, value: str, name: str) -> str:
        node = self._builder.node
        gate = self._linear(value, f"{name}gate_proj.weight")
        cube = node("Mul", [self._float(0.044715), node("Pow", [gate, self._float(3)])])
        inner = node("Mul", [self._float((2 / np.pi) ** 0.5), node("Add", [gate, cube])])
        factor = node("Add", [node("Tanh", [inner]), self._float(1)])
        active = node("Mul", [node("Mul", [self._float(0.5), gate]), factor])
        wide = node("Mul", [active, self._linear(value, f"{name}up_proj.weight")])
        return self._linear(wide, f"{name}down_proj.weight")

    def _norm(self, value: str, name: str) -> str:
        node = self._builder.node
        mean = node("ReduceMean", [node("Pow", [value, self._float(2)]), self._int64(-1)])
        root = node("Sqrt", [node("Add", [mean, self._float(self._config.norm_epsilon)])])
        value = node("Mul", [value, node("Reciprocal", [root])])
        return node("Mul", [value, self._builder.weight(name, 1 + self._tensors.pop(name))])

    def _linear(self, value: str, name: str) -> str:
        weight: npt.NDArray[Any] = self._tensors.pop(name)
        return self._builder.node("MatMul", [value, self._builder.weight(name, weight.T)])

    def _float(self, value: float) -> str:
        return self._builder.constant(value, np.float32)

    def _int64(self, *values: int) -> str:
        return self._builder.constant(values, np.int64)
