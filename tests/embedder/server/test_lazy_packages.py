"""Libraries that a start imports in part, tested in separate processes."""

import subprocess
import sys


def run(program: str) -> str:
    command = [sys.executable, "-W", "error", "-c", program]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not finished.stderr, finished.stderr
    return finished.stdout


def test_a_start_imports_no_command_line_and_no_other_server() -> None:
    """Nor does an HTTP server that is about to serve."""
    program = """
import sys
import embedder.server.__main__
import embedder.server.metrics, embedder.server.serve
from embedder.server.lifecycle import Lifecycle
from embedder.server.settings import ServerSettings
lifecycle = Lifecycle(accept=0, total=0)
server = embedder.server.serve.http_server(None, lifecycle, ServerSettings(), ready=print)
server.config.load()
names = ("click", "uvicorn.main", "http.server", "wsgiref", "prometheus_client.exposition")
print([name for name in names if name in sys.modules])
"""
    assert run(program) == "[]\n"


def test_what_was_left_out_is_there_when_it_is_asked_for() -> None:
    """The packages are whole for every other module of the process."""
    program = """
import embedder.server.__main__
import embedder.server.metrics, embedder.server.serve
import prometheus_client, uvicorn
from uvicorn import run
print(uvicorn.__version__ > "0", callable(run), uvicorn.Server is uvicorn.server.Server)
print(callable(prometheus_client.start_http_server), prometheus_client.REGISTRY is not None)
"""
    assert run(program) == "True True True\nTrue True\n"


def test_a_package_that_is_there_is_left_as_it_is() -> None:
    """The order of imports of a larger program is its own."""
    program = """
import uvicorn
whole = uvicorn
import embedder.server.lazy_packages
import uvicorn
print(uvicorn is whole, type(uvicorn).__name__)
"""
    assert run(program) == "True module\n"
