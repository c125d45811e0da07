"""The embedding server's API."""

import re

import pytest

from embedder.http.apis.embedding_server import duration
from tests.embedder.calls import post, read

PATH = "/api/v1/embed"


def test_the_answer_is_an_object(router):
    """The response has vectors with indices, token counts, and durations as strings with a unit."""
    answer = read(post(router, PATH, {"inputs": ["a", "b c"]}))
    vectors = read(post(router, "/embed", {"inputs": ["a", "b c"]}))
    assert answer["data"] == [
        {"embedding": vector, "index": index} for index, vector in enumerate(vectors)
    ]
    assert answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert set(answer["timings"]) == {"tokenization", "queue", "inference"}
    assert all(re.fullmatch(r"[\d.]+(ns|µs|ms|s)", time) for time in answer["timings"].values())
    assert answer["vector_space"].endswith("/32")


@pytest.mark.parametrize("direction", ["Left", "left", "LEFT"])
def test_every_field_is_taken(router, direction):
    """All fields in the server's README are accepted, with the direction in any letter case."""
    body = {
        "inputs": " ".join(f"w{number}" for number in range(40)),
        "truncate": True,
        "truncation_direction": direction,
        "prompt_name": None,
        "normalize": True,
        "dimensions": 8,
    }
    answer = read(post(router, PATH, body))
    by_hand = {"text": body["inputs"], "truncate": "left", "size": 8}
    assert answer["data"][0]["embedding"] == read(post(router, "/", by_hand))["embedding"]


@pytest.mark.parametrize(
    ("body", "status"),
    [({"inputs": ""}, 400), ({"inputs": "w " * 40}, 413), ({"input": "a"}, 400), (b"{", 400)],
)
def test_errors_hold_a_message(router, body, status):
    """The message is under `error`, where the server's clients expect it."""
    error = read(post(router, PATH, body), status)
    assert isinstance(error["error"], str)
    assert error["request_id"] == "request-1"


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(1.25, "1.25s"), (0.0025, "2.5ms"), (0.00012, "120µs"), (5e-7, "500ns"), (0, "0ns")],
)
def test_times_are_written_as_rust_writes_them(seconds, written):
    """Durations have the format of the README's example."""
    assert duration(seconds) == written
