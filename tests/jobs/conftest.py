"""S3 on this machine."""

from collections.abc import Iterator

import pytest

from tests.jobs.local_s3 import LocalS3, local_s3


@pytest.fixture
def s3(monkeypatch) -> Iterator[LocalS3]:
    """Serve S3 on this machine, with the variables that Lambda sets and the endpoint's."""
    with local_s3() as served:
        for name, value in {
            "AWS_REGION": "eu-central-1",
            "AWS_ACCESS_KEY_ID": "ASIAEXAMPLE",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_SESSION_TOKEN": "token",
            "AWS_ENDPOINT_URL": served.url,
        }.items():
            monkeypatch.setenv(name, value)
        yield served
