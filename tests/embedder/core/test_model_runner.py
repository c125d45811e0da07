"""The cache of vectors."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from embedder.core.model_runner import VectorCache


def vectors(*values: float) -> np.ndarray:
    """Return one vector for each value, which is in every component."""
    return np.repeat(np.array(values, dtype=np.float32)[:, None], 3, axis=1)


def found(cache: VectorCache, *inputs: bytes) -> list[float | None]:
    return [None if vector is None else float(vector[0]) for vector in cache.get(inputs)]


def test_what_was_put_is_got():
    """As a copy, not a view into the batch's array, and only for its own key, until `clear`."""
    cache = VectorCache(2)
    cache.put([b"a"], vectors(1))
    (vector, missing) = cache.get([b"a", b"b"])
    assert vector is not None
    assert (vector.tolist(), vector.base, missing) == ([1, 1, 1], None, None)
    cache.clear()
    assert found(cache, b"a") == [None]


def test_a_cache_of_nothing_keeps_nothing():
    """A size of zero disables the cache."""
    cache = VectorCache(0)
    cache.put([b"a"], vectors(1))
    assert len(cache) == 0


def test_the_least_recently_used_goes_first():
    """The cache never exceeds its size, and reading a vector marks it as recently used."""
    cache = VectorCache(2)
    cache.put([b"a", b"b"], vectors(1, 2))
    assert found(cache, b"a") == [1]
    cache.put([b"c"], vectors(3))
    assert len(cache) == 2
    assert found(cache, b"a", b"b", b"c") == [1, None, 3]


def test_threads_may_share_it():
    """Threads that fill a small cache and read from it never fail, and read only right vectors."""
    cache = VectorCache(8)
    names = [b"%d" % number for number in range(24)]
    barrier = threading.Barrier(4)

    def use(seed: int) -> int:
        barrier.wait()
        wrong = 0
        for step in range(1500):
            number = (seed * 7 + step * 5) % 24
            cache.put([names[number]], vectors(number))
            wrong += any(
                value not in (None, expected) for expected, value in enumerate(found(cache, *names))
            )
        return wrong

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(use, range(4))) == [0] * 4
    finally:
        sys.setswitchinterval(interval)
    assert len(cache) == 8
