"""The cache of vectors."""

import numpy as np

from embedder.cache import VectorCache


def vector(value: float) -> np.ndarray:
    """Return a vector with this value in every component."""
    return np.full(3, value, dtype=np.float32)


def test_what_was_put_is_got() -> None:
    """A vector is returned unchanged, and only for its own key."""
    cache = VectorCache(2)
    cache.put(b"a", vector(1))
    found = cache.get(b"a")
    assert found is not None
    assert found.tolist() == [1, 1, 1]
    assert cache.get(b"b") is None


def test_the_least_recently_used_goes_first() -> None:
    """The cache never exceeds its size, and reading a vector marks it as recently used."""
    cache = VectorCache(2)
    cache.put(b"a", vector(1))
    cache.put(b"b", vector(2))
    cache.get(b"a")
    cache.put(b"c", vector(3))
    assert len(cache) == 2
    assert cache.get(b"b") is None
    assert cache.get(b"a") is not None


def test_a_cache_of_nothing_keeps_nothing() -> None:
    """A size of zero disables the cache."""
    cache = VectorCache(0)
    cache.put(b"a", vector(1))
    assert len(cache) == 0


def test_a_vector_does_not_keep_its_batch_alive() -> None:
    """The cache stores a copy of the vector, not a view into the batch's array."""
    cache = VectorCache(1)
    batch = np.ones((100, 3), dtype=np.float32)
    cache.put(b"a", batch[0])
    kept = cache.get(b"a")
    assert kept is not None
    assert kept.base is None


def test_clear_forgets_everything() -> None:
    """A cleared cache has no vectors that a snapshot would copy."""
    cache = VectorCache(1)
    cache.put(b"a", vector(1))
    cache.clear()
    assert cache.get(b"a") is None
