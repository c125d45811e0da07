"""Compares a library's kernels with its plain C, bit for bit, here or under emulation."""

import ctypes
import json
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

_WIDTH_STEP = 16


class _Layer(ctypes.Structure):
    """A layer, as layer.h has it."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("inner", "outliers", "columns")),
        *((name, ctypes.c_void_p) for name in ("weights", "scale", "outlier_weights")),
        *((name, ctypes.c_void_p) for name in ("bias", "gain")),
        ("output_count", ctypes.c_size_t),
        ("width", ctypes.c_size_t * 3),
        ("least_scale", ctypes.c_float),
        *((name, ctypes.c_int32) for name in ("zero_point", "scaled", "activation", "product")),
    )


class LinearRowsCase:
    """A random layer and its input; `run` returns the outputs, side by side."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        rows = int(random.choice([1, 2, 3, 4, 5, 8, 9, 31, 128, 129, 300]))
        inner = int(random.integers(1, 70 if rows > 100 else 700))
        outliers = int(random.choice([0, 1, 2, 16]))
        widths = random.integers(1, 8, random.integers(1, 4)) * _WIDTH_STEP
        if seed % 10 == 0:  # the third output may seem to continue the first
            rows, widths = 1, np.array([64, 16, 64])
        columns = int(widths.sum())
        product, gain = random.choice([(0, 0), (0, 1), (1, 0)])
        self.rows, self.widths = rows, widths
        self.input = self._floats(random, rows, inner + outliers)
        self.residual = self._floats(random, rows, columns) if random.random() < 0.5 else None
        if product or gain:
            self.residual = self._floats(random, rows, columns)
        self.layer = _Layer(inner, outliers, columns, output_count=len(widths))
        self.layer.width[:] = [*widths, 0, 0, 0][:3]
        self.layer.least_scale = random.choice([1e-30, 0.01])
        self.layer.zero_point = random.choice([0, 0, 1, 16, 128, 254])
        self.layer.scaled, self.layer.activation = random.integers(0, 2), random.integers(0, 3)
        self.layer.product = product
        self.arrays: list[Any] = [random.integers(-128, 128, (inner, columns)).astype(np.int8)]
        self.arrays += [self._floats(random, rows, columns) / 99 for rows in (1, outliers, 1, 1)]
        names = ["weights", "scale", "outlier_weights"]
        names += ["bias"] * bool(random.random() < 0.7) + ["gain"] * bool(gain)
        for name, array in zip(names, self.arrays, strict=False):
            setattr(self.layer, name, array.ctypes.data)

    @staticmethod
    def _floats(random: np.random.Generator, rows: int, columns: int) -> Any:
        values = random.normal(size=(rows, columns)) * random.choice([1e-3, 1, 50], (rows, 1))
        values[random.random((rows, columns)) < 0.01] *= 30
        values[random.random(rows) < 0.05] = 0
        return values.astype(np.float32)

    def run(self, library: ctypes.CDLL, kernel: str) -> Any | None:
        """Return all that was written, float32; None if the processor lacks the kernel.

        Between the first and the third output there is room for the second, which is elsewhere.
        """
        sizes = [self.rows * int(width) for width in (*self.widths, 0, 0)[:3]]
        memory = np.full(sizes[0] + 2 * sizes[1] + sizes[2], np.pi, np.float32)
        starts = (0, sizes[0] + sizes[1] + sizes[2], sizes[0] + sizes[1])
        pointers = (ctypes.c_void_p * 3)(*(memory[start:].ctypes.data for start in starts))
        residual = None if self.residual is None else self.residual.ctypes.data
        done = library.linear_rows_run(
            kernel.encode(),
            ctypes.byref(self.layer),
            ctypes.c_void_p(self.input.ctypes.data),
            ctypes.c_void_p(residual),
            ctypes.c_size_t(self.rows),
            pointers,
        )
        return memory if done else None

    def matrix(self, memory: Any) -> Any:
        """Return what `run` returns as float32 [rows, columns]."""
        first, second, third = (self.rows * int(width) for width in (*self.widths, 0, 0)[:3])
        gap = first + second
        outputs = (memory[:first], memory[gap + third :], memory[gap : gap + third])
        shaped = [output.reshape(self.rows, -1) for output in outputs[: len(self.widths)]]
        return np.concatenate(shaped, axis=1)


class AttentionRowsCase:
    """Random queries, keys, values and bias; `run` returns the output."""

    def __init__(self, seed: int) -> None:
        random = np.random.default_rng(seed)
        self.texts, self.kv_heads = (int(n) for n in random.integers(1, 4, 2))
        self.heads = self.kv_heads * int(random.integers(1, 4))
        self.rows = int(random.choice([1, 2, 3, 4, 5, 8, 9, 31, 32, 33, 70]))
        self.keys = int(random.choice([*range(1, 71), 600]))
        self.width = int(random.choice([1, 6, 8, 26, 32, 48, 64, 80, 96, 128, 256]))
        self.factor = float(random.choice([self.width**-0.5, 1, -0.1]))
        self.query, self.key, self.value = (
            self._floats(random, self.texts, rows, heads, self.width)
            for rows, heads in (
                (self.rows, self.heads),
                (self.keys, self.kv_heads),
                (self.keys, self.kv_heads),
            )
        )
        shape = [self.texts, self.heads, self.rows]
        forms = ((), (0,), (1,), (2,), (1, 2), (0, 1, 2), None)
        form = forms[random.integers(len(forms))]
        self.bias = None
        if form is not None:
            for axis in form:
                shape[axis] = 1
            bias = random.normal(size=(*shape, self.keys)).astype(np.float32)
            bias[random.random(bias.shape) < random.choice([0, 0.3, 0.9])] = random.choice(
                [-1e9, -3.4e38, -np.inf]
            )
            self.bias = np.ascontiguousarray(bias)

    @staticmethod
    def _floats(random: np.random.Generator, *shape: int) -> Any:
        values = random.normal(size=shape) * random.choice([1e-3, 0.3, 1, 3], (*shape[:3], 1))
        values[random.random(shape) < 0.003] *= 30
        values[random.random(shape[:3]) < 0.02] = 0
        return values.astype(np.float32)

    def run(self, library: ctypes.CDLL, kernel: str) -> Any | None:
        """Return the output, float32 [texts, rows, heads, width]; None without the kernel."""
        steps = [0, 0, 0]
        if self.bias is not None:
            steps = [
                0 if size == 1 else stride // 4
                for size, stride in zip(self.bias.shape[:3], self.bias.strides[:3], strict=True)
            ]
        sizes = (self.texts, self.heads, self.kv_heads, self.rows, self.keys, self.width, *steps)
        output = np.full(self.query.shape, np.pi, np.float32)
        arrays = (self.query, self.key, self.value, self.bias)
        done = library.attention_rows_run(
            kernel.encode(),
            (ctypes.c_size_t * 9)(*sizes),
            ctypes.c_float(self.factor),
            (ctypes.c_void_p * 4)(*(None if a is None else a.ctypes.data for a in arrays)),
            ctypes.c_void_p(output.ctypes.data),
        )
        return output if done else None

    def formula(self) -> Any:
        """Return the attention in float64, as `run`."""
        repeats = self.heads // self.kv_heads
        query, key, value = (
            array.astype(np.float64).repeat(count, axis=2).transpose(0, 2, 1, 3)
            for array, count in ((self.query, 1), (self.key, repeats), (self.value, repeats))
        )
        scores = query @ key.swapaxes(2, 3) * self.factor
        if self.bias is not None:
            scores = scores + np.maximum(self.bias, -1e38)
        powers = np.exp(scores - scores.max(axis=3, keepdims=True))
        means = powers / powers.sum(axis=3, keepdims=True) @ value
        return means.transpose(0, 2, 1, 3)


#: Operator → its random cases.
CASES: Mapping[str, type[LinearRowsCase | AttentionRowsCase]] = {
    "LinearRows": LinearRowsCase,
    "AttentionRows": AttentionRowsCase,
}


def compare(path: str, operator: str, kernel: str, seeds: range) -> list[int] | None:
    """Return the seeds of cases in which the kernel's bits are not plain C's; None without it."""
    library = ctypes.CDLL(path)
    different = []
    for seed in seeds:
        case = CASES[operator](seed)
        expected, outputs = case.run(library, "plain"), case.run(library, kernel)
        if outputs is None:
            return None
        if expected is None or expected.tobytes() != outputs.tobytes():
            different.append(seed)
    return different


def has_kernel(path: str, kernels: list[str]) -> bool:
    """Return whether the processor has one of the kernels."""
    library = ctypes.CDLL(path)
    return any(LinearRowsCase(0).run(library, kernel) is not None for kernel in kernels)


if __name__ == "__main__":
    path, operator, cases, *kernels = sys.argv[1:]
    print(json.dumps({name: compare(path, operator, name, range(int(cases))) for name in kernels}))
