"""Calls to S3 Vectors: signed, retried within the deadline, and their errors."""

import time
from typing import Any

import numpy as np
import pytest

from embedder.core.aws import CredentialsProvider
from embedder.core.s3_vectors import (
    AccessDeniedError,
    IndexNotFoundError,
    RejectedError,
    S3VectorsClient,
    S3VectorsThrottledError,
    S3VectorsUnavailableError,
)
from tests.fixtures.s3_vectors.server import REGION, Failure, LocalS3Vectors
from tests.fixtures.waiting import PATIENCE


def parameters(arn: str, **more: Any) -> dict[str, Any]:
    return {
        "indexArn": arn,
        "topK": 1,
        "queryVector": {"float32": np.array([1, 0], dtype=np.float32)},
        **more,
    }


@pytest.fixture
def arn(s3_vectors: LocalS3Vectors) -> str:
    index = s3_vectors.create("docs", 2, tags={"a": "b"})
    index.put([{"key": "k", "data": {"float32": [1, 0]}}])
    return index.arn


@pytest.fixture(autouse=True)
def sleeps(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Record the delays instead of waiting."""
    delays: list[float] = []
    monkeypatch.setattr("embedder.core.s3_vectors.time.sleep", delays.append)
    return delays


def test_a_query_and_the_tags_go_over_one_connection(client, s3_vectors, arn):
    """Both calls are signed, and botocore's description of the service allows them."""
    assert client.tags(arn, deadline=None) == {"a": "b"}
    answer = client.query(parameters(arn), deadline=None)
    assert answer == {"vectors": [{"key": "k"}], "distanceMetric": "cosine"}
    assert [name for name, _ in s3_vectors.calls] == ["ListTagsForResource", "QueryVectors"]
    assert s3_vectors.connections == 1


def test_a_response_is_awaited_no_longer_than_the_deadline(client, arn, monkeypatch):
    """A request has time left that its answer may take, and never more than 5 s."""
    ask, waits = client._pool.request, []

    def asked(*place, timeout, **options):
        waits.append(timeout)
        return ask(*place, timeout=PATIENCE, **options)

    monkeypatch.setattr(client._pool, "request", asked)
    for seconds in (4, 600):
        client.query(parameters(arn), deadline=time.monotonic() + seconds)
    assert 0 < waits[0] <= 4 < waits[1] <= 5


@pytest.mark.parametrize(
    "failure",
    [
        Failure(429, "TooManyRequestsException"),
        Failure(500, "InternalServerException"),
        Failure(503, "ServiceUnavailableException"),
        Failure(408, "RequestTimeoutException"),
        Failure(drop=True),
    ],
)
def test_a_call_that_may_succeed_later_is_retried(client, s3_vectors, arn, failure, sleeps):
    """Throttles, faults of the service and lost connections are retried after growing delays."""
    s3_vectors.failures = [failure] * 4
    assert client.query(parameters(arn), deadline=time.monotonic() + PATIENCE)["vectors"]
    assert s3_vectors.failures == []
    assert all(0 <= delay <= 0.05 * 2**number for number, delay in enumerate(sleeps))


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (Failure(403, "AccessDeniedException"), AccessDeniedError),
        (Failure(404, "NotFoundException"), IndexNotFoundError),
        (Failure(400, "ValidationException"), RejectedError),
        (Failure(400, "KmsDisabledException"), RejectedError),
    ],
)
def test_a_call_that_cannot_succeed_is_not_retried(client, s3_vectors, arn, failure, kind):
    """The error has the status and the name that AWS gives it, and not its message."""
    s3_vectors.failures = [failure, failure]
    with pytest.raises(kind) as caught:
        client.query(parameters(arn), deadline=None)
    assert str(caught.value) == f"{failure.status} {failure.error}"
    assert len(s3_vectors.failures) == 1


def test_retries_end(client, s3_vectors, arn):
    """After six attempts the last error is raised, and the next call works."""
    s3_vectors.failures = [Failure(429)] * 6
    with pytest.raises(S3VectorsThrottledError):
        client.query(parameters(arn), deadline=time.monotonic() + 600)
    assert s3_vectors.failures == []
    assert client.query(parameters(arn), deadline=None)["vectors"]


def test_no_retry_starts_after_the_deadline(client, s3_vectors, arn):
    """A request that is out of time is not sent at all, and a failed one not again."""
    with pytest.raises(S3VectorsUnavailableError):
        client.query(parameters(arn), deadline=time.monotonic() - 1)
    assert s3_vectors.connections == 0
    s3_vectors.failures = [Failure(500, delay=0.3)] * 2
    with pytest.raises(S3VectorsUnavailableError):
        client.query(parameters(arn), deadline=time.monotonic() + 0.2)
    assert len(s3_vectors.failures) >= 1


@pytest.mark.parametrize(
    ("url", "secret", "kind"),
    [
        # S3 Vectors verifies the signature, and no credentials at all are the same error.
        (None, "x", AccessDeniedError),
        (None, "", AccessDeniedError),
        ("http://127.0.0.1:9", "x", S3VectorsUnavailableError),
    ],
)
def test_a_call_without_an_answer_is_an_error_of_this_package(s3_vectors, arn, url, secret, kind):
    """A wrong key, no key, and a host without a server."""
    environ = {"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": secret}
    credentials = CredentialsProvider(environ)
    client = S3VectorsClient(region=REGION, endpoint=url or s3_vectors.url, credentials=credentials)
    with pytest.raises(kind):
        client.query(parameters(arn), deadline=None)
    client.forget()
