"""Bounded dictionaries that compute missing values."""

from collections.abc import Callable
from typing import TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Memo(dict[Key, Value]):
    """Remembers the values of `compute`; starts over when `limit` entries are in it.

    A hit costs as much as a dictionary's. Starting over is cheaper than any order of eviction, and
    words come back at once in the order of their frequency.
    """

    __slots__ = ("_compute", "_limit")

    def __init__(self, compute: Callable[[Key], Value], *, limit: int) -> None:
        super().__init__()
        self._compute = compute
        self._limit = limit

    def __missing__(self, key: Key) -> Value:
        if len(self) >= self._limit:
            self.clear()
        value = self[key] = self._compute(key)
        return value


class WordMemo(Memo[str, Value]):
    """Remembers short strings only: a long one hardly comes back, and would take much room."""

    __slots__ = ()

    def __missing__(self, key: str) -> Value:
        value = self._compute(key)
        if len(key) <= _LONGEST_WORD:
            if len(self) >= self._limit:
                self.clear()
            self[key] = value
        return value


#: Characters. A German compound fits; a base64 line does not.
_LONGEST_WORD = 48
