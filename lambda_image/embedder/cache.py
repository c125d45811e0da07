"""Keeps the vectors of inputs that may come again: a bounded, least-recently-used cache."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from embedder.digest import digest

if TYPE_CHECKING:  # see startup
    import numpy as np
    import numpy.typing as npt

__all__ = ["VectorCache"]


class VectorCache:
    """Full-size vectors by the token ids, as bytes, that they are the embedding of.

    One cache serves one artifact, so that its keys can never meet those of another vector space.
    Equal ids give equal vectors, whatever prompt or truncation led to them.

    Args:
        entries: the most vectors to keep; 0 keeps none.
    """

    def __init__(self, entries: int) -> None:
        self._entries = entries
        self._vectors: OrderedDict[bytes, npt.NDArray[np.float32]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._vectors)

    def get(self, ids: bytes) -> npt.NDArray[np.float32] | None:
        """Return a vector and make it the most recently used one."""
        if not self._vectors:
            return None
        key = _digest(ids)
        vector = self._vectors.get(key)
        if vector is not None:
            self._vectors.move_to_end(key)
        return vector

    def put(self, ids: bytes, vector: npt.NDArray[np.float32]) -> None:
        """Keep a vector; drop the least recently used one if the cache is full."""
        if not self._entries:
            return
        key = _digest(ids)
        # A copy: a view of one row would keep the whole batch's array alive.
        self._vectors[key] = vector.copy()
        self._vectors.move_to_end(key)
        if len(self._vectors) > self._entries:
            self._vectors.popitem(last=False)

    def clear(self) -> None:
        """Forget everything."""
        self._vectors.clear()


def _digest(ids: bytes) -> bytes:
    # The ids of a long text take more room than its vector.
    return digest(ids, 16)
