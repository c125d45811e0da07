"""A job over files in a temporary folder, with a small model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.embed.job import Job, Shard
from jobs.embed.run import JobPlan
from jobs.embed.worker import embed_shard
from jobs.storage import open_folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    return folder


@pytest.fixture
def job(source: Path, tmp_path: Path) -> Job:
    return Job(source=str(source), destination=str(tmp_path / "vectors"), id="id")


def embed_shards(engine: Any, plan: JobPlan, shards: Sequence[Shard]) -> None:
    """Embed shards of a plan, as a worker does."""
    output = open_folder(plan.folder)
    for shard in shards:
        embed_shard(engine, open_folder(plan.job.source), output, shard, plan.job)
