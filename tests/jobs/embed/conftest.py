"""A job over files in a temporary folder, with a small model."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedder.core.engine import Engine
from jobs.embed.job import Job
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of
from tests.jobs.embed.local_s3 import LocalS3, local_s3


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture
def job(source: Path, tmp_path: Path) -> Job:
    return Job(source=str(source), destination=str(tmp_path / "vectors"), id="id")


@pytest.fixture
def session() -> HashSession:
    return HashSession()


@pytest.fixture
def engine(session: HashSession) -> Engine:
    return Engine(manifest_of(max_tokens=16), WordTokenizer(), session)


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
