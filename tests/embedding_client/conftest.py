"""A real model behind the local Function URL, once for all tests of this folder."""

import contextlib
import dataclasses
import resource
from collections.abc import Iterator

import pytest

from embedding_client import EmbeddingClient
from local_function_url.endpoint import endpoint


@dataclasses.dataclass(frozen=True)
class Endpoint:
    """Where the model answers, and what it is."""

    url: str
    dimensions: int


@pytest.fixture(scope="session")
def running(minilm_artifact) -> Iterator[Endpoint]:
    """all-MiniLM-L6-v2 in AWS's runtime behind a signature check, for the pair local / local."""
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
    """Makes every file full at a size, as a full disk does, for the length of a block."""

    @contextlib.contextmanager
    def limited(size: int) -> Iterator[None]:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    return limited
