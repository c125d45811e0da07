"""A job over a classifier's model writes a label and scores for each text."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet
import pytest

from embedder.core.classifier import Classifier
from jobs.embed.run import finish_job, plan_job
from jobs.embed.worker import load_engine
from jobs.errors import BatchError
from tests.fixtures.small_artifact import small_artifact
from tests.jobs.embed.conftest import embed_shards
from tests.model_compiler.goldens.reranker_models import write_reranker

ROWS = [
    {"id": "a", "text": "a date and a time", "n": "1"},
    {"id": "b", "text": " ", "n": "2"},
    {"id": "c", "text": "world " * 600, "n": "3"},
    {"id": "d", "text": "hello world", "n": "4"},
]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> Classifier:
    """Return a small classifier."""
    folder = write_reranker(tmp_path_factory.mktemp("classifier") / "m", labels=3)
    engine = load_engine(small_artifact(folder))
    assert isinstance(engine, Classifier)
    return engine


def test_each_text_has_the_scores_that_it_has_alone(classifier, job, source):
    """A part has the best label, its score, all scores and metadata, and the label space."""
    (source / "a.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    job = replace(job, metadata=("n",), max_rejected_percent=50.0)
    plan = plan_job(job, classifier.manifest)
    embed_shards(classifier, plan, plan.shards)
    result = finish_job(plan)
    assert (result.rows, result.rejected) == (2, 2)
    assert result.vector_space == classifier.manifest.space
    (part,) = Path(plan.folder).glob("*.parquet")
    table = pyarrow.parquet.read_table(part)
    assert table.column_names == ["id", "label", "score", "scores", "n"]
    for row, text in zip(table.to_pylist(), (ROWS[0], ROWS[3]), strict=True):
        alone = classifier.predict([text["text"]]).scores[0].tolist()
        assert row["scores"] == dict(zip(classifier.scoring.labels, alone, strict=True))
        assert (row["score"], row["scores"][row["label"]]) == (max(alone), max(alone))
        assert (row["id"], row["n"]) == (text["id"], text["n"])
    (rejected,) = (Path(plan.folder) / "_rejected").iterdir()
    problems = [json.loads(line)["problem"] for line in rejected.read_text().splitlines()]
    assert problems[1].startswith("has 602 tokens, special tokens included")


def test_a_job_of_rejected_rows_alone(classifier, job, source):
    """Its part has no rows and the same columns."""
    (source / "a.jsonl").write_text(json.dumps(ROWS[1]))
    plan = plan_job(replace(job, max_rejected_percent=100), classifier.manifest)
    embed_shards(classifier, plan, plan.shards)
    (part,) = Path(plan.folder).glob("*.parquet")
    table = pyarrow.parquet.read_table(part)
    assert (table.num_rows, table.column_names) == (0, ["id", "label", "score", "scores"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"query": "question"}, "needs a reranker, .* m is a classifier"),
        ({"dimensions": 8}, "is a classifier: its job must have no dimensions"),
        ({"dtype": "int8"}, "found None, int8 and none"),
        ({"metadata": ("label", "scores")}, "found None, float and label, scores"),
        ({"prompt": "query"}, "is a classifier, which has no prompts"),
    ],
)
def test_settings_that_only_vectors_have(classifier, job, options, message):
    """A job that asks for what labels have not is refused before anything is read."""
    with pytest.raises(BatchError, match=message):
        plan_job(replace(job, **options), classifier.manifest)
