"""A real model behind the local Function URL, once for all tests of this folder."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from embedder.core.artifact import Artifact
from embedding_client import EmbeddingClient
from embedding_client.cli import run as run_command
from tools.local_endpoint.endpoint import endpoint

Serve = Callable[[Path], AbstractContextManager[str]]


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """The URL of a served model, and the length of its vectors."""

    url: str
    dimensions: int


@pytest.fixture(scope="session")
def serve() -> Serve:
    """Return a context manager that serves an artifact; its value is the URL.

    It runs in AWS's runtime, for requests signed with the pair local / local.
    """

    @contextlib.contextmanager
    def serving(artifact: Path) -> Iterator[str]:
        url, _ = endpoint(artifact)
        with url:
            yield url.url

    return serving


@pytest.fixture(scope="session")
def running(minilm_artifact, serve) -> Iterator[Endpoint]:
    """Serve all-MiniLM-L6-v2."""
    with serve(Path(minilm_artifact.folder)) as url:
        yield Endpoint(url=url, dimensions=minilm_artifact.manifest.dimensions[0])


@pytest.fixture(scope="module")
def url(artifact: Artifact, serve: Serve) -> Iterator[str]:
    """Serve the `artifact` of a module, for requests signed with local / local."""
    with serve(Path(artifact.folder)) as url:
        yield url


@pytest.fixture
def client(running) -> Iterator[EmbeddingClient]:
    with EmbeddingClient(running.url) as made:
        yield made


@pytest.fixture
def command(capsys):
    """Run `embed` in this process; return its status, its output and its errors."""

    def run(*arguments: object) -> tuple[int, str, str]:
        try:
            code = run_command([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run
