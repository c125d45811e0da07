"""A job of a sparse encoder writes two list columns."""

import io
import json
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest

from embedder.core.artifact import Artifact
from embedder.core.sparse import SparseEncoder
from jobs.embed.job import Job
from jobs.embed.run import plan_job
from jobs.embed.worker import embed_shard, load_engine
from jobs.errors import BatchError
from jobs.storage import open_folder
from tests.fixtures.small_artifact import small_artifact
from tests.model_compiler.goldens.sparse_models import write_sparse


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """Return the artifact of a small sparse encoder."""
    return small_artifact(write_sparse(tmp_path_factory.mktemp("sparse") / "m"))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """Return a job over three rows, of which one has no text and one is too long."""
    (tmp_path / "in").mkdir()
    texts = ["hello world", "", "parse the date", "hello " * 60]
    rows = [json.dumps({"id": str(place), "text": text}) for place, text in enumerate(texts)]
    (tmp_path / "in" / "a.jsonl").write_text("\n".join(rows))
    return Job(source=str(tmp_path / "in"), destination=str(tmp_path / "out"), id="id")


def test_a_part_has_indices_and_values(artifact, job):
    """They are the encoder's own, and rows without a vector are rejected."""
    plan = plan_job(job, artifact.manifest)
    output = open_folder(plan.folder, create=True)
    (shard,) = plan.shards
    outcome = embed_shard(load_engine(artifact), open_folder(job.source), output, shard, job)
    assert (outcome.counts.rows, outcome.counts.rejected) == (2, 2)
    file = output.find(shard.done_key)
    assert file is not None
    table = pyarrow.parquet.read_table(io.BufferedReader(output.open(file)))
    assert table.schema.field("indices").type == arrow.list_(arrow.uint32())
    assert table.schema.field("values").type == arrow.list_(arrow.float32())
    assert table.schema.metadata[b"vector_space"].decode() == artifact.manifest.space
    vectors = SparseEncoder.load(artifact).embed(["hello world", "parse the date"]).vectors
    for name, part in (("indices", 0), ("values", 1)):
        found = table.column(name).to_pylist()
        assert all(np.array_equal(a, b[part]) for a, b in zip(found, vectors, strict=True))


@pytest.mark.parametrize("wrong", [{"dimensions": 8}, {"dtype": "int8"}, {"metadata": ("values",)}])
def test_what_a_sparse_job_has_not_is_refused(artifact, job, wrong):
    """Sparse vectors are not cut or quantized, and their columns have names of their own."""
    with pytest.raises(BatchError, match="is a sparse encoder: its job must have no dimensions"):
        plan_job(Job(source=job.source, destination=job.destination, **wrong), artifact.manifest)
