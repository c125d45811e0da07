"""A job over files in a temporary folder, with a small model."""

from pathlib import Path

import pytest

from jobs.embed.job import Job


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture
def job(source: Path, tmp_path: Path) -> Job:
    return Job(source=str(source), destination=str(tmp_path / "vectors"), id="id")
