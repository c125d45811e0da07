"""Searches of the long-lived server: many threads share one client of S3 Vectors."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.embedder.server.running import running
from tests.fixtures.s3_vectors.server import Failure

TEXTS = [f"entry {number}" for number in range(20)]
CLIENTS = 16


def test_searches_at_the_same_time_get_their_own_answers(s3_vectors, load, open_with):
    """As alone, also when S3 Vectors throttles, fails or hangs up; connections are shared."""
    with running(
        open_index=lambda engine: open_with(engine, load(engine, TEXTS)), max_concurrent_requests=32
    ) as server:

        def search(text: str) -> Any:
            answer = server.post("/similar", {"text": text, "num_results": 3})
            assert answer.status_code == 200, answer.text
            return answer.json()["results"]

        alone = [search(text) for text in TEXTS]
        assert s3_vectors.connections == 1
        s3_vectors.failures += [
            Failure(status=429, error="TooManyRequestsException"),
            Failure(drop=True),
            Failure(status=503, error="ServiceUnavailableException"),
            Failure(drop=True),
        ]
        with ThreadPoolExecutor(CLIENTS) as clients:
            together = list(clients.map(search, TEXTS * 4))
    assert together == alone * 4
    assert s3_vectors.failures == []
    # One for each search at a time, and some that the service has closed.
    assert s3_vectors.connections < 2 * CLIENTS
    assert s3_vectors.faults == []
