"""The cache of vectors."""

import numpy as np

from embedder.cache import VectorCache


def vector(value: float) -> np.ndarray:
    """Make a vector that can be told from others."""
    return np.full(3, value, dtype=np.float32)


def test_what_was_put_is_got() -> None:
    """A vector comes back as it was, and only for its own key."""
    cache = VectorCache(2)
    cache.put(b"a", vector(1))
    found = cache.get(b"a")
    assert found is not None
    assert found.tolist() == [1, 1, 1]
    assert cache.get(b"b") is None


def test_the_least_recently_used_goes_first() -> None:
    """The cache never holds more than it may, and a look keeps a vector."""
    cache = VectorCache(2)
    cache.put(b"a", vector(1))
    cache.put(b"b", vector(2))
    cache.get(b"a")
    cache.put(b"c", vector(3))
    assert len(cache) == 2
    assert cache.get(b"b") is None
    assert cache.get(b"a") is not None


def test_a_cache_of_nothing_keeps_nothing() -> None:
    """Zero entries switch it off."""
    cache = VectorCache(0)
    cache.put(b"a", vector(1))
    assert len(cache) == 0


def test_a_vector_does_not_keep_its_batch_alive() -> None:
    """What is kept is a copy, not a view into an array of the whole run."""
    cache = VectorCache(1)
    batch = np.ones((100, 3), dtype=np.float32)
    cache.put(b"a", batch[0])
    kept = cache.get(b"a")
    assert kept is not None
    assert kept.base is None


def test_clear_forgets_everything() -> None:
    """Nothing is left for a snapshot to copy."""
    cache = VectorCache(1)
    cache.put(b"a", vector(1))
    cache.clear()
    assert cache.get(b"a") is None
