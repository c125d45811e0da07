"""The load and the measurement, against a server with the small model."""

import asyncio
from functools import partial

import pytest

from tests.embedder.server.running import running
from tools.bench.server import LOADS, under_load
from tools.bench.serving import Load, Server, bodies, send


class Here(Server):
    """A server in this process; its processor time grows by a second when it is read."""

    read = 0

    def cpu_seconds(self) -> float:
        """Count the readings."""
        self.read += 1
        return float(self.read)


server = partial(Here, "kit", "Embedding Kit", [], ready="/ready")


def test_every_client_sends_until_the_end() -> None:
    """Each has at least one answer, and all latencies are counted."""
    with running(max_tokens=512) as found:
        one = server(port=found.address[1])
        sent = asyncio.run(send(one, Load("short", 3, texts=2), seconds=0.05, seed=1))
    assert list(sent.statuses) == [200]
    assert len(sent.latencies) == sent.statuses[200] >= 3
    assert 0 < sent.quantile(0.5) <= sent.quantile(1.0)


def test_a_load_that_is_never_answered_is_an_error() -> None:
    """A server that answers errors has no CPU time of a request."""
    with running(max_tokens=1) as found, pytest.raises(RuntimeError, match="no request was answ"):
        asyncio.run(send(server(port=found.address[1]), Load("run", 1), seconds=0.01, seed=1))


def test_each_load_has_its_rows() -> None:
    """The processor time is divided by the number of requests."""
    with running(max_tokens=512) as found:
        rows = under_load([server(port=found.address[1])], rounds=2, seconds=0.02)
    assert len(rows) == 4 * len(LOADS)
    assert all(row.values["kit"] > 0 for row in rows)
    assert [row.name for row in rows if row.targets] == [row.name for row in rows[::4]]


def test_texts_differ_and_can_be_had_again() -> None:
    """A cache answers none of them, and another run sends the same."""
    made = bodies("mixed", texts=4, seed=3)
    assert len(set(made)) == len(made) == 1000
    assert made == bodies("mixed", texts=4, seed=3)
