"""A finished batch job in a temporary folder, and an index to load it into."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from embedder.core.engine import Engine
from jobs.embed.job import Job
from jobs.embed.run import finish_job, plan_job
from jobs.load import index_client
from tests.fixtures.s3_vectors.indexes import Index
from tests.fixtures.s3_vectors.server import CREDENTIALS, LocalS3Vectors, local_s3_vectors
from tests.jobs.embed.conftest import embed_shards

ROWS = 60
#: The ARN of `index`.
ARN = "arn:aws:s3vectors:eu-central-1:123456789012:bucket/vectors/index/docs"


def row(number: int) -> dict[str, Any]:
    """Return a document."""
    return {"id": f"d{number}", "text": f"text number {number}", "lang": "de" if number % 2 else ""}


class Clock:
    """A clock that only moves when someone sleeps."""

    def __init__(self) -> None:
        self.now = 100.0

    def read(self) -> float:
        """Return the time."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Move the time."""
        assert seconds > 0
        self.now += seconds


@pytest.fixture
def embed(tmp_path: Path, engine: Engine) -> Callable[..., Path]:
    """Return a function that embeds rows in a job, and returns the job's folder."""

    def run(rows: list[dict[str, Any]] | None = None, **settings: Any) -> Path:
        docs = tmp_path / "docs"
        docs.mkdir(exist_ok=True)
        lines = [json.dumps(each) for each in (map(row, range(ROWS)) if rows is None else rows)]
        (docs / "a.jsonl").write_text("\n".join(lines))
        settings = {"id": "id", "metadata": ("lang", "text"), "shard_bytes": 500, **settings}
        job = Job(source=str(docs), destination=str(tmp_path / "vectors"), **settings)
        plan = plan_job(job, engine.manifest)
        embed_shards(engine, plan, plan.shards)
        finish_job(plan)
        return Path(plan.folder)

    return run


@pytest.fixture
def s3_vectors(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalS3Vectors]:
    """Serve S3 Vectors on this machine, and let requests be tried again without a pause."""
    with local_s3_vectors() as served:
        for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL_S3VECTORS": served.url}.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(index_client, "_ATTEMPTS", 3)
        delay = "botocore.retries.standard.ExponentialBackoff.delay_amount"
        monkeypatch.setattr(delay, lambda *_: 0.0)
        yield served


@pytest.fixture
def index(s3_vectors: LocalS3Vectors) -> Index:
    """Create the index that the jobs are loaded into."""
    return s3_vectors.create("docs", 32, non_filterable=("text",))
