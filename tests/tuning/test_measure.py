"""Test the order of a measurement, with a function that takes notes."""

import base64
from typing import Any

import numpy as np
import pytest
from tqdm import tqdm

from tuning.errors import SizeRefusedError
from tuning.invocation import Report
from tuning.measure import Plan, measure
from tuning.requests import EmbeddingRequest
from tuning.sizes import SIZES

REQUESTS = (EmbeddingRequest(8, 1, {"input": ["a"]}), EmbeddingRequest(32, 1, {"input": ["b"]}))
VECTOR = base64.b64encode(np.array([0.6, 0.8], dtype="<f4").tobytes()).decode()


class Function:
    """Stands in for the throw-away function.

    Attributes:
        did: Each start, as memory and number, and each request's text.
    """

    def __init__(self, *, most: int = 10_240) -> None:
        self.did: list[object] = []
        self._most, self._cold, self._memory = most, False, 0

    def start(self, size, number):
        """Take a size."""
        if size.memory_mb > self._most:
            raise SizeRefusedError("too much")
        self.did.append((size.memory_mb, number))
        self._cold, self._memory = True, size.memory_mb

    def call(self, method, path, body):
        """Answer with a vector; the first answer after a start has an initialization."""
        assert (method, path) == ("POST", "/v1/embeddings")
        self.did.append(body["input"][0])
        init, self._cold = (700.0 if self._cold else None), False
        answer = {"data": [{"embedding": VECTOR}]}
        return answer, Report(9.5, 10, init, self._memory, 321)


@pytest.fixture
def progress():
    with tqdm(disable=True) as bar:
        yield bar


def test_the_sizes_take_turns(progress):
    """Each start: a cold request, then of each length one that does not count and two that do."""
    function: Any = Function()
    found, notes = measure(
        function, SIZES[:2], REQUESTS, Plan(starts=2, requests=2), progress=progress
    )
    once = ["a", "a", "a", "a", "b", "b", "b"]
    assert function.did == [(1769, 1), *once, (2048, 1), *once, (1769, 2), *once, (2048, 2), *once]
    assert notes == []
    assert [one.inits for one in found] == [[700.0, 700.0]] * 2
    assert [[len(reports) for reports in one.warm] for one in found] == [[4, 4]] * 2
    assert [[len(vectors) for vectors in one.vectors] for one in found] == [[2, 2]] * 2
    assert found[0].peak_mb == 321


def test_a_refused_size_is_left_out_for_good(progress):
    """The others are measured; one note says why."""
    function: Any = Function(most=3008)
    found, notes = measure(function, SIZES, REQUESTS, Plan(starts=2, requests=1), progress=progress)
    assert [one.size for one in found] == list(SIZES[:2])
    assert notes == ["too much"]


def test_the_progress_counts_each_invocation(progress):
    """As many as the plan says."""
    function: Any = Function()
    counted: list[int] = []
    progress.update = counted.append
    plan = Plan(starts=2, requests=3)
    measure(function, SIZES, REQUESTS, plan, progress=progress)
    assert sum(counted) == plan.invocations(3, 2)
