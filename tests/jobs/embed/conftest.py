"""A job over files in a temporary folder, with a small model."""

from pathlib import Path

import pytest

from embedder.core.engine import Engine
from jobs.embed.job import Job
from tests.embedder.small_model import HashSession, WordTokenizer, manifest_of


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
