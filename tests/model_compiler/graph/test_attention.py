"""The buckets of relative positions."""

import math

from model_compiler.graph.attention import bucket


def test_small_distances_have_their_own_bucket():
    """The buckets 0 to 7 are for keys at or before the query, 17 to 23 for keys after it."""
    assert [bucket(-distance) for distance in range(8)] == list(range(8))
    assert [bucket(distance) for distance in range(1, 8)] == list(range(17, 24))


def test_large_distances_share_logarithmic_buckets():
    """A bucket begins at 8 times each power of the square root of 2, and 128 is in the last."""
    starts = [math.ceil(8 * 2 ** (power / 2)) for power in range(8)]
    assert [bucket(-start) for start in starts] == list(range(8, 16))
    assert [bucket(1 - start) for start in starts[1:]] == list(range(8, 15))
    assert bucket(-128) == bucket(-100_000) == 15
    assert bucket(128) == bucket(100_000) == 31
