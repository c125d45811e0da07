"""A real model behind the local Function URL, once for all tests of this folder."""

import contextlib
import dataclasses
import resource
from collections.abc import Iterator

import pytest

from embedding_client import EmbeddingClient
from tools.local_endpoint.endpoint import endpoint


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """The URL of a served model, and the length of its vectors."""

    url: str
    dimensions: int


@pytest.fixture(scope="session")
def running(minilm_artifact) -> Iterator[Endpoint]:
    """Serve all-MiniLM-L6-v2 in AWS's runtime, for requests signed with the pair local / local."""
    with pytest.MonkeyPatch.context() as environment:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
            environment.delenv(name, raising=False)
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
            environment.delenv(name, raising=False)
        url, _ = endpoint(minilm_artifact.folder)
        with url:
            yield Endpoint(url=url.url, dimensions=minilm_artifact.manifest.dimensions[0])


@pytest.fixture
def client(running) -> Iterator[EmbeddingClient]:
    with EmbeddingClient(running.url) as made:
        yield made


@pytest.fixture
def file_limit():
    """Limit the size of all files within a block, to simulate a full disk."""

    @contextlib.contextmanager
    def limited(size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited
