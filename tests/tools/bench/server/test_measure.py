"""The load and the measurement, against a server with the small model."""

import asyncio

from tests.embedder.server.running import running
from tools.bench.server.load import Load, send
from tools.bench.server.measure import LOADS, fairness, measure
from tools.bench.server.servers import Server


class Here(Server):
    """A server in this process, whose processor time grows by a second when it is read."""

    read = 0

    def cpu_seconds(self) -> float:
        """Count the readings."""
        self.read += 1
        return float(self.read)


def server(port: int) -> Here:
    return Here("kit", "Embedding Kit", [], port, "/ready")


def test_every_client_sends_until_the_end() -> None:
    """Each has at least one answer, and all latencies are counted."""
    with running(max_tokens=512) as found:
        sent = asyncio.run(
            send(f"{found.url}/v1/embeddings", Load("short", 3, texts=2), seconds=0.05, seed=1)
        )
    assert list(sent.statuses) == [200]
    assert len(sent.latencies) == sent.statuses[200] >= 3
    assert 0 < sent.quantile(0.5) <= sent.quantile(1.0)


def test_each_round_has_every_load() -> None:
    """A cell has the processor time of its own requests, divided by their number."""
    notes: list[str] = []
    with running(max_tokens=512) as found:
        cells = measure([server(found.address[1])], rounds=2, seconds=0.02, note=notes.append)
    assert set(cells) == {("kit", load) for load in LOADS}
    assert all(len(cell.cpu_ms) == 2 and cell.failed == 0 for cell in cells.values())
    assert len(notes) == 2 * len(LOADS)


def test_single_texts_are_measured_beside_lists() -> None:
    """Both are answered, and so are the runs that they are compared with."""
    with running(max_tokens=512) as found:
        result = fairness(server(found.address[1]), seconds=0.05)
    assert result.singles >= 4
    assert result.lists >= 3
    assert result.run_ms > 0
