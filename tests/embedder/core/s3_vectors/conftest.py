"""The stand-in for S3 Vectors, and clients and services that use it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from embedder.core.aws import CredentialsProvider
from embedder.core.engine import Engine
from embedder.core.s3_vectors import S3VectorsClient, S3VectorsIndex
from tests.fixtures.s3_vectors.indexes import Index
from tests.fixtures.s3_vectors.server import CREDENTIALS, REGION, LocalS3Vectors, local_s3_vectors


@pytest.fixture
def s3_vectors() -> Iterator[LocalS3Vectors]:
    with local_s3_vectors() as state:
        yield state


@pytest.fixture
def client(s3_vectors: LocalS3Vectors) -> Iterator[S3VectorsClient]:
    new_client = S3VectorsClient(
        region=REGION, endpoint=s3_vectors.url, credentials=CredentialsProvider(CREDENTIALS)
    )
    yield new_client
    new_client.forget()


@pytest.fixture
def load(s3_vectors: LocalS3Vectors) -> Callable[..., Index]:
    """Return a function that makes an index and loads texts, as a load job does."""

    def make(
        engine: Engine, texts: Sequence[str], metadata: Sequence[dict[str, Any]] = ()
    ) -> Index:
        embedded = engine.embed(texts)
        return s3_vectors.load("docs", embedded.vectors, embedded.vector_space, texts, metadata)

    return make


@pytest.fixture
def open_with(client: S3VectorsClient) -> Callable[[Engine, Index], S3VectorsIndex]:
    def opened(engine: Engine, index: Index) -> S3VectorsIndex:
        spaces = [engine.vector_space(dimensions) for dimensions in engine.limits.dimensions]
        return S3VectorsIndex(index.arn, client, spaces=spaces)

    return opened
