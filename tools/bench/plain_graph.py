"""EmbeddingGemma as an exporter writes it: one node for each elementary step, nothing fused.

It replaces torch's export if torch is not installed, with the same steps in the same number and
order as `torch.onnx.export(dynamo=True)` (about 2,900 nodes after quantization).
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
        config, op, builder = self._config, self._builder.op, self._builder
        for name in ("input_ids", "attention_mask"):
            builder.input(name, dtype=np.int64, shape=["batch", "tokens"])
        table = builder.weight("embed_tokens", self._tensors["embed_tokens.weight"])
        hidden = op.Gather(table, "input_ids")
        hidden = op.Mul(hidden, self._float(config.hidden_size**0.5))
        self._prepare()
        for layer, sliding in enumerate(config.sliding):
            name = f"layers.{layer}."
            value = self._norm(hidden, f"{name}input_layernorm.weight")
            value = self._attention(value, f"{name}self_attn.", sliding=sliding)
            value = self._norm(value, f"{name}post_attention_layernorm.weight")
            hidden = op.Add(hidden, value)
            value = self._norm(hidden, f"{name}pre_feedforward_layernorm.weight")
            value = self._feed_forward(value, f"{name}mlp.")
            value = self._norm(value, f"{name}post_feedforward_layernorm.weight")
            hidden = op.Add(hidden, value)
        hidden = self._norm(hidden, "norm.weight")
        weighted = op.Mul(hidden, op.Unsqueeze(self._mask, self._int64(2)))
        total = op.ReduceSum(weighted, self._int64(1), keepdims=0)
        count = op.ReduceSum(self._mask, self._int64(1), keepdims=1)
        value = op.Div(total, count)
        for number, weight in enumerate(self._dense):
            value = op.MatMul(value, builder.weight(f"dense.{number}", weight.T))
        length = op.ReduceL2(value, self._int64(-1), keepdims=1)
        length = op.Max(length, self._float(1e-12))
        op.Div(value, length, output="sentence_embedding")
        builder.output("sentence_embedding", dtype=np.float32, shape=["batch", len(self._dense[1])])

    def _prepare(self) -> None:
        config, op, builder = self._config, self._builder.op, self._builder
        self._mask = op.Cast("attention_mask", to=TensorProto.FLOAT)
        shape = op.Shape("input_ids")
        self._batch, self._tokens = (op.Gather(shape, self._int64(axis)) for axis in range(2))
        scalars = [builder.constant(number, np.int64) for number in (0, 1)]
        places = op.Range(scalars[0], op.Squeeze(self._tokens), scalars[1])
        places = op.Cast(places, to=TensorProto.FLOAT)
        missing = op.Sub(self._float(1), self._mask)
        padding = op.Unsqueeze(op.Mul(missing, self._float(-1e9)), self._int64(1, 2))
        column = op.Unsqueeze(places, self._int64(1))
        distance = op.Abs(op.Sub(column, places))
        far = op.Cast(op.Greater(distance, self._float(config.reach)), to=1)
        far = op.Mul(far, self._float(-1e9))
        self._bias = {False: padding, True: op.Add(padding, far)}
        self._rope: dict[bool, tuple[str, str]] = {}
        for sliding, base in ((True, config.sliding_rope_base), (False, config.full_rope_base)):
            exponents = np.arange(0, config.head_size, 2) / config.head_size
            frequencies = builder.weight(
                f"frequencies.{sliding}", (1.0 / base**exponents).astype(np.float32)[None]
            )
            angles = op.MatMul(column, frequencies)
            angles = op.Concat(angles, angles, axis=-1)
            self._rope[sliding] = (op.Cos(angles), op.Sin(angles))

    def _attention(self, value: str, name: str, *, sliding: bool) -> str:
        config, op = self._config, self._builder.op
        size = config.head_size
        query = self._heads(self._linear(value, f"{name}q_proj.weight"), config.heads)
        key = self._heads(self._linear(value, f"{name}k_proj.weight"), 1)
        other = self._heads(self._linear(value, f"{name}v_proj.weight"), 1)
        query = self._rotated(self._norm(query, f"{name}q_norm.weight"), sliding=sliding)
        key = self._rotated(self._norm(key, f"{name}k_norm.weight"), sliding=sliding)
        key, other = self._repeated(key), self._repeated(other)
        scores = op.MatMul(query, op.Transpose(key, perm=[0, 1, 3, 2]))
        scores = op.Mul(scores, self._float(config.query_scalar**-0.5))
        scores = op.Softmax(op.Add(scores, self._bias[sliding]), axis=-1)
        mixed = op.Transpose(op.MatMul(scores, other), perm=[0, 2, 1, 3])
        mixed = op.Reshape(mixed, self._int64(0, 0, config.heads * size))
        return self._linear(mixed, f"{name}o_proj.weight")

    def _heads(self, value: str, heads: int) -> str:
        shape = self._int64(0, 0, heads, self._config.head_size)
        value = self._builder.op.Reshape(value, shape)
        return self._builder.op.Transpose(value, perm=[0, 2, 1, 3])

    def _rotated(self, value: str, *, sliding: bool) -> str:
        op, half = self._builder.op, self._config.head_size // 2
        axis, end = self._int64(-1), self._int64(2 * half)
        left = op.Slice(value, self._int64(0), self._int64(half), axis)
        right = op.Slice(value, self._int64(half), end, axis)
        turned = op.Concat(op.Neg(right), left, axis=-1)
        cosines, sines = self._rope[sliding]
        return op.Add(op.Mul(value, cosines), op.Mul(turned, sines))

    def _repeated(self, value: str) -> str:
        op, heads, size = self._builder.op, self._config.heads, self._config.head_size
        shape = op.Concat(
            self._batch, self._int64(1, heads), self._tokens, self._int64(size), axis=0
        )
        value = op.Expand(op.Unsqueeze(value, self._int64(2)), shape)
        return op.Reshape(value, self._int64(0, heads, -1, size))

    def _feed_forward(self, value: str, name: str) -> str:
        op = self._builder.op
        gate = self._linear(value, f"{name}gate_proj.weight")
        cube = op.Mul(self._float(0.044715), op.Pow(gate, self._float(3)))
        inner = op.Mul(self._float((2 / np.pi) ** 0.5), op.Add(gate, cube))
        factor = op.Add(op.Tanh(inner), self._float(1))
        active = op.Mul(op.Mul(self._float(0.5), gate), factor)
        wide = op.Mul(active, self._linear(value, f"{name}up_proj.weight"))
        return self._linear(wide, f"{name}down_proj.weight")

    def _norm(self, value: str, name: str) -> str:
        op = self._builder.op
        mean = op.ReduceMean(op.Pow(value, self._float(2)), self._int64(-1))
        root = op.Sqrt(op.Add(mean, self._float(self._config.norm_epsilon)))
        value = op.Mul(value, op.Reciprocal(root))
        return op.Mul(value, self._builder.weight(name, 1 + self._tensors.pop(name)))

    def _linear(self, value: str, name: str) -> str:
        weight: npt.NDArray[Any] = self._tensors.pop(name)
        return self._builder.op.MatMul(value, self._builder.weight(name, weight.T))

    def _float(self, value: float) -> str:
        return self._builder.constant(value, np.float32)

    def _int64(self, *values: int) -> str:
        return self._builder.constant(values, np.int64)
