"""The load test of the pages, in a process of its own: Locust patches the standard library."""

import io
import json
import os
import signal
import socket
import subprocess
import sys
from operator import itemgetter

import pytest

from tests.fixtures.waiting import PATIENCE, wait_until
from tools.local_endpoint.endpoint import endpoint

from .pages import ROOT

FILE = ROOT / "docs" / "examples" / "locustfile.py"


@pytest.fixture
def load(tmp_path):
    """Start a load test without its page."""

    def start(url, *options):
        return subprocess.Popen(
            [sys.executable, "-m", "locust", "-f", FILE, "--host", url, "--headless", *options],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


def test_a_load_test_sends_signed_requests_and_counts_cold_starts(load, minilm_artifact, tmp_path):
    """The first request of the only environment has a row of its own; the others succeed, too."""
    requests = io.StringIO()
    running, _ = endpoint(minilm_artifact.folder, requests=requests)
    with running:
        process = load(running.url, "--users", "2", "--json-file", tmp_path / "report")
        wait_until(lambda: requests.getvalue().count("\n") >= 5 or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, printed
    report = json.loads((tmp_path / "report.json").read_text())
    cold, warm = sorted(report, key=itemgetter("name"), reverse=True)
    assert (cold["name"], warm["name"]) == ("embed, cold start", "embed")
    assert cold["num_requests"] == 1
    assert warm["num_requests"] >= 2
    for row in (cold, warm):
        assert row["num_failures"] == 0
        assert row["total_content_length"] > 500 * row["num_requests"]


def test_a_load_test_reports_failures(load):
    """A request whose connection is closed is a failure with its reason; the status is 1."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(PATIENCE)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        process = load(url)
        # The only user sends its second request after the failure of the first.
        for _ in range(2):
            listening.accept()[0].close()
        process.send_signal(signal.SIGTERM)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert f"POST embed: UnreachableError('{url} " in printed
