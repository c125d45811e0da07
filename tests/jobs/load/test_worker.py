"""Rows as vectors of S3 Vectors: metadata, limits, the division into requests, and the rate."""

from datetime import UTC, date, datetime

import numpy as np
import orjson
import pytest

from jobs.load.index_client import Item, batches, encode
from jobs.load.worker import RateLimit
from tests.jobs.load.conftest import Clock

VECTOR = np.array([0.1, -0.25, 1e-9], np.float32)


def encoding(metadata: dict, key: str = "a", vector: np.ndarray = VECTOR) -> Item:
    return encode(key, vector, metadata, non_filterable=["text"])


def encoded(metadata: dict, **changes) -> dict:
    found = encoding(metadata, **changes)
    assert found.problem is None
    value: dict = orjson.loads(found.json)
    return value


def problem(metadata: dict, **changes) -> str | None:
    found = encoding(metadata, **changes)
    assert found.json == b""
    return found.problem


def test_the_numbers_are_the_shortest_that_give_the_same_float32():
    """Half the bytes of the numbers as float64."""
    item = encode("a", VECTOR, {}, non_filterable=[])
    assert item.json == b'{"key":"a","data":{"float32":[0.1,-0.25,1e-9]}}'
    numbers = np.random.default_rng(0).standard_normal(2000).astype(np.float32)
    found = encoded({}, vector=numbers)["data"]["float32"]
    assert np.array_equal(np.array(found, np.float32), numbers)


def test_values_become_what_s3_vectors_takes():
    """Dates become text. Fields without a value are left out."""
    found = encoded(
        {
            "n": 3,
            "x": 0.5,
            "yes": True,
            "tags": ["a", None, "b"],
            "day": date(2026, 11, 22),
            "at": datetime(2026, 11, 22, 10, tzinfo=UTC),
            "empty": "",
            "none": None,
            "nan": float("nan"),
            "no": [],
            "nones": [None],
        }
    )
    assert found["metadata"] == {
        "n": 3,
        "x": 0.5,
        "yes": True,
        "tags": ["a", "b"],
        "day": "2026-11-22",
        "at": "2026-11-22T10:00:00+00:00",
        "empty": "",
    }
    assert "metadata" not in encoded({"none": None})


def test_the_limits_are_those_of_aws():
    """1,024 characters of id; 2 KB of filterable metadata, and 40 KB in all."""
    assert encoded({}, key="ä" * 1024)["key"] == "ä" * 1024
    assert problem({}, key="x" * 1025) == "the id has 1025 characters; 1 to 1024 are allowed"
    assert problem({}, key="") == "the id has 0 characters; 1 to 1024 are allowed"
    assert encoded({"k": "x" * (2048 - 8)})
    assert problem({"k": "x" * (2048 - 7)}) == (
        "2,049 bytes of filterable metadata; up to 2,048 are allowed"
    )
    assert encoded({"text": "ä" * 20_000})
    assert problem({"text": "ä" * 21_000}) == "42,011 bytes of metadata; up to 40,960 are allowed"


@pytest.mark.parametrize("numbers", [[0, 0], [float("nan"), 1], [float("inf"), 1]])
def test_a_vector_without_a_direction_is_refused(numbers):
    """The cosine distance to it is undefined."""
    assert problem({}, vector=np.array(numbers, np.float32)) == (
        "the embedding has no direction: it is zero or not finite"
    )


@pytest.mark.parametrize(
    ("count", "size", "expected"),
    [
        (0, 10, []),
        (1, 30 * 2**20, [1]),
        (1001, 100, [500, 500, 1]),
        (600, 100_000, [209, 209, 182]),
    ],
)
def test_a_request_has_up_to_500_vectors_and_20_mib(count, size, expected):
    """Long vectors with long texts come in smaller requests."""
    made = list(batches([Item(str(number), b"x" * size) for number in range(count)]))
    assert [len(batch) for batch in made] == expected


def test_vectors_are_written_at_the_rate_and_no_faster():
    """The first request does not wait. In the end, the last one has had its time."""
    clock = Clock()
    limit = RateLimit(500, now=clock.read, sleep=clock.sleep)
    starts = []
    for _ in range(4):
        limit.claim(500)
        starts.append(clock.now - 100)
    assert starts == [0, 1, 2, 3]
    limit.settle()
    assert clock.now == 104


def test_slow_requests_wait_for_nothing():
    """Time that was not used is not saved up for a burst."""
    clock = Clock()
    limit = RateLimit(500, now=clock.read, sleep=clock.sleep)
    limit.claim(500)
    clock.now += 30
    limit.claim(500)
    assert clock.now == 130
    limit.claim(500)
    assert clock.now == 131
