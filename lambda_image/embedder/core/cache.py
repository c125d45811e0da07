"""Keeps the vectors of inputs that may come again: a bounded, least-recently-used cache."""

from __future__ import annotations

from _thread import allocate_lock  # `threading` is not imported by a start
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from embedder.core.artifact import digest

if TYPE_CHECKING:  # see startup
    import numpy as np
    import numpy.typing as npt

#: Of a key, in bytes: the ids of a long text take more room than its vector.
_KEY = 16


class VectorCache:
    """Full-size vectors, at most `entries`, by the token ids, as bytes, that they were made of.

    One cache serves one artifact, so that its keys can never meet those of another vector space.
    Equal ids give equal vectors, whatever prompt or truncation led to them. Threads may share it:
    finding a vector and moving it in the order are two steps, so a lock is taken, once for all
    inputs of a call.
    """

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._lock = allocate_lock()
        self._vectors: OrderedDict[bytes, npt.NDArray[np.float32]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, inputs: Sequence[bytes]) -> list[npt.NDArray[np.float32] | None]:
        """Return the inputs' vectors, or None, and make those the most recently used ones."""
        vectors = self._vectors
        if not vectors:
            return [None] * len(inputs)
        keys = [digest(ids, _KEY) for ids in inputs]
        with self._lock:
            found = [vectors.get(key) for key in keys]
            for key, vector in zip(keys, found, strict=True):
                if vector is not None:
                    vectors.move_to_end(key)
        return found

    def put(self, inputs: Sequence[bytes], rows: npt.NDArray[np.float32]) -> None:
        """Keep a row, float32, for each input; if it is full, drop the least recently used ones."""
        if not self._entries:
            return
        # Copies: a view of one row would keep the whole batch's array alive.
        new = [(digest(ids, _KEY), row.copy()) for ids, row in zip(inputs, rows, strict=True)]
        vectors = self._vectors
        with self._lock:
            for key, vector in new:
                vectors[key] = vector
                vectors.move_to_end(key)
                if len(vectors) > self._entries:
                    vectors.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._vectors.clear()
