"""The soak: its requests, and how their answers are checked."""

import asyncio
import os

import pytest

from tests.embedder.server.running import running
from tools.bench.counted_server import Work
from tools.bench.server import ServerProcess
from tools.bench.soak import Case, soak

CASES: list[Case] = [
    ("POST", "/", {"text": "a b"}, 200),
    ("POST", "/embed", {"inputs": ["a", "b"]}, 200),
    ("POST", "/api/v1/embed", {"inputs": "a"}, 200),
    ("POST", "/", '{"text": "', 400),
    ("GET", "/nothing", None, 404),
] * 60


def here(port: int) -> ServerProcess:
    """Return a server that runs in this process."""
    return ServerProcess("kit", "Embedding Kit", port, pid=os.getpid())


def test_all_answers_are_right_and_a_sample_is_sent_again():
    """Every request is sent once, by whichever client is free."""
    with running() as found:
        server = here(found.address[1])
        result = asyncio.run(soak(server, iter(CASES), clients=7))
    assert result.wrong == []
    assert result.statuses == {200: 180, 400: 60, 404: 60}
    assert len(result.memory) == 3
    assert min(result.memory) > 0
    assert len(result.sample) == 6


def test_an_answer_with_another_status_is_wrong():
    """The report has the request and the answer."""
    wrong: Case = ("GET", "/nothing", None, 200)
    with running() as found:
        server = here(found.address[1])
        (line,) = asyncio.run(soak(server, iter([wrong]), clients=1)).wrong
    assert line.startswith("GET /nothing None: 404")


def test_the_models_work_is_read_by_other_processes(tmp_path):
    """It is counted in runs of 256 tokens, with the time of one."""
    counted = Work(tmp_path / "work")
    counted.add(256, 0.02)
    counted.add(128, 0.01)
    work = Work(tmp_path / "work")
    assert work.runs == 1.5
    assert work.milliseconds == pytest.approx(20)
    assert not work.is_over
    counted.end()
    assert work.is_over
