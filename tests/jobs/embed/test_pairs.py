"""A job with a query column scores pairs with a reranker."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from embedder.core.reranker import Reranker
from jobs.embed.job import Job
from jobs.embed.run import EmbedSteps, finish_job, plan_job
from jobs.embed.worker import load_engine
from jobs.errors import BatchError
from tests.embedder.small_model import manifest_of
from tests.fixtures.small_artifact import small_artifact
from tests.jobs.embed.conftest import embed_shards
from tests.model_compiler.goldens.reranker_models import write_reranker

ROWS = [
    {"id": "a", "question": "parse the date", "text": "a date and a time", "n": "1"},
    {"id": "b", "question": "hello", "text": "hello world", "n": "2"},
    {"id": "c", "text": "no question", "n": "3"},
    {"id": "d", "question": " ", "text": "a blank question", "n": "4"},
    {"id": "e", "question": "hello", "text": "world " * 600, "n": "5"},
    {"id": "f", "question": "parse the date", "text": "hello world", "n": "6"},
]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> Reranker:
    """Return a small reranker."""
    engine = load_engine(small_artifact(write_reranker(tmp_path_factory.mktemp("ranker") / "m")))
    assert isinstance(engine, Reranker)
    return engine


@pytest.fixture
def pairs(job: Job, source: Path) -> Job:
    """Return a job over rows with a query each, but for some."""
    (source / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    return replace(job, query="question", metadata=("n",), max_rejected_percent=50.0)


def test_each_pair_has_the_score_that_it_has_alone(reranker, pairs):
    """A part has ids, scores and metadata, the score space, and the refused rows by reason."""
    plan = plan_job(pairs, reranker.manifest)
    embed_shards(reranker, plan, plan.shards)
    result = finish_job(plan)
    assert (result.rows, result.rejected) == (3, 3)
    assert result.vector_space == reranker.manifest.space
    (part,) = Path(plan.folder).glob("*.parquet")
    table = pyarrow.parquet.read_table(part)
    good = [row for row in ROWS if row["id"] in {"a", "b", "f"}]
    alone = [reranker.rerank(row["question"], [row["text"]]).scores[0] for row in good]
    assert table.column_names == ["id", "score", "n"]
    assert table["id"].to_pylist() == ["a", "b", "f"]
    assert table["score"].to_pylist() == alone
    assert table["n"].to_pylist() == ["1", "2", "6"]
    (rejected,) = (Path(plan.folder) / "_rejected").iterdir()
    problems = [json.loads(line)["problem"] for line in rejected.read_text().splitlines()]
    assert problems[0].startswith("has no 'question'; it has ")
    assert problems[1] == "has no text in 'question': ' '"
    assert "tokens together with the query" in problems[2]


def test_a_pair_over_the_limit_may_be_cut(reranker, pairs):
    """`truncate` cuts as the model does it."""
    plan = plan_job(replace(pairs, truncate="right"), reranker.manifest)
    embed_shards(reranker, plan, plan.shards)
    assert finish_job(plan).rows == 4


def test_a_model_of_another_kind(reranker, pairs, tmp_path):
    """Without a query a reranker has nothing to score, and scores need one label."""
    event = {"job": {"source": "s3://in/a/", "destination": "s3://out/b/"}}
    with pytest.raises(BatchError, match="without query another model; m is a reranker"):
        EmbedSteps(reranker).plan(event)
    with pytest.raises(BatchError, match="is an embedding model"):
        plan_job(pairs, manifest_of())
    with pytest.raises(BatchError, match="one label; m has LABEL_0, LABEL_1"):
        plan_job(pairs, small_artifact(write_reranker(tmp_path / "m", labels=2, saved={})).manifest)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": "query"}, "found prompt; allowed"),
        ({"dimensions": 8, "dtype": "int8"}, "found dimensions, dtype; allowed"),
        ({"truncate": "left"}, "found truncate = left"),
        ({"text": "question"}, "text = question"),
        ({"query": ""}, "text and query must name a field"),
        ({"metadata": ("score",)}, "none named id or score.* found score"),
    ],
)
def test_settings_that_only_vectors_have(job, options, message):
    """A job that asks for what a score has not is refused before anything is read."""
    with pytest.raises(BatchError, match=message):
        replace(job, **{"query": "question", **options})
