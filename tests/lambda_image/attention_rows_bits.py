"""Compares a library's kernels of AttentionRows with its plain C, here or under emulation."""

import ctypes
import json
import sys
from typing import Any

import numpy as np


class Case:
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


def compare(path: str, kernel: str, seeds: range) -> list[int] | None:
    """Return the seeds of cases in which the kernel's bits are not plain C's; None without it."""
    library = ctypes.CDLL(path)
    different = []
    for seed in seeds:
        case = Case(seed)
        expected, outputs = case.run(library, "plain"), case.run(library, kernel)
        if outputs is None:
            return None
        if expected is None or expected.tobytes() != outputs.tobytes():
            different.append(seed)
    return different


if __name__ == "__main__":
    path, cases, *kernels = sys.argv[1:]
    print(json.dumps({name: compare(path, name, range(int(cases))) for name in kernels}))
