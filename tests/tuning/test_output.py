"""Test the table."""

import pytest

from embedding_kit.environment import Environment
from embedding_kit.prices import load_prices
from embedding_kit.settings import FunctionSettings, Model
from tuning.output import as_table
from tuning.requests import EmbeddingRequest
from tuning.results import summarize

from .test_results import DEFAULT, ONE, TWO, VECTOR, measured

REQUESTS = (EmbeddingRequest(32, 1, {}), EmbeddingRequest(1024, 2, {}))


def table(*found, **function):
    environment = Environment(
        name="dev", model=Model(name="any/model"), function=FunctionSettings(**function)
    )
    results = summarize(found, [0.5, 0.5], load_prices("us-east-1"))
    return as_table(environment, REQUESTS, results)


@pytest.fixture
def three():
    return measured(ONE, 20.0, 700.0), measured(DEFAULT, 20.0, 700.0), measured(TWO, 18.0, 420.0)


def test_the_table_has_a_line_for_each_size(three):
    """For the initialization, for each length, and for all requests."""
    lines = [" ".join(line.split()) for line in table(*three).splitlines()[:13]]
    assert lines == [
        "p50 ms p99 ms $ a million",
        "initialization 1,769 MB, 1 thread 700.0",
        "2,048 MB, 1 thread 700.0",
        "3,538 MB, 2 threads 700.0",
        "32 tokens 1,769 MB, 1 thread 20.0 20.0 0.66",
        "2,048 MB, 1 thread 20.0 20.0 0.73",
        "3,538 MB, 2 threads 18.0 18.0 1.03",
        "1,024 tokens, 2 texts 1,769 MB, 1 thread 700.0 700.0 16.32",
        "2,048 MB, 1 thread 700.0 700.0 18.87",
        "3,538 MB, 2 threads 420.0 420.0 19.55",
        "mean of all requests 1,769 MB, 1 thread 360.0 8.49",
        "2,048 MB, 1 thread 360.0 9.80",
        "3,538 MB, 2 threads 219.0 10.29",
    ]


def test_it_says_what_threads_buy(three):
    """For each length; and that one thread costs the same up to one vCPU."""
    text = table(*three)
    assert "One thread uses one vCPU, which is 1,769 MB. Below it, a request costs the same" in text
    assert "32 tokens: 1.11 times as fast for 1.56 times the cost" in text
    assert "1,024 tokens: 1.67 times as fast for 1.20 times the cost" in text


def test_the_last_lines_recommend(three):
    """With the present size, and why."""
    last = table(*three, memory_mb=2048, threads=1).splitlines()[-3:]
    assert last == [
        "recommended: memory_mb = 3538 (now 2048)",
        "  1.64 times as fast as 1,769 MB, 1 thread for 1.21 times the cost",
        "  threads = 2 with it, or no threads (now 1)",
    ]


def test_a_size_that_is_right_already_stays():
    """The others cost more than they gain."""
    last = table(measured(ONE, 20.0, 30.0), measured(TWO, 19.0, 29.0), memory_mb=1769)
    assert last.splitlines()[-2] == "recommended: memory_mb = 1769 (as now)"
    assert "3,538 MB, 2 threads: 1.68 times the cost, 1.04 times as fast" in last


def test_other_vectors_are_reported():
    """With the lowest cosine, and which sizes are out."""
    text = table(measured(ONE, 20.0, 30.0), measured(TWO, 1.0, 1.0, vector=-VECTOR))
    assert "Vectors: not equal bit for bit; the lowest cosine" in text
    assert "3,538 MB, 2 threads: other vectors (cosine -1.000000), so not recommended" in text


def test_equal_vectors_are_reported(three):
    """In one line."""
    assert "Vectors: equal bit for bit in each start of each size.\n" in table(*three)
