"""Loads of a finished job into an index: whole, interrupted, throttled, and refused ones."""

import json
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest

from embedder.core.s3_vectors import SPACE_TAG
from jobs.errors import (
    BatchError,
    ChangedInputError,
    IncompleteJobError,
    RejectedRowsError,
    UnavailableError,
    VectorSpaceError,
)
from jobs.load.index_client import IndexClient
from jobs.load.run import LAYOUT, LoadResult, LoadSettings, finish_load, plan_load
from jobs.load.worker import RateLimit, load_parts
from tests.fixtures.s3_vectors.server import Failure
from tests.jobs.load.conftest import ARN, ROWS, Clock, row

THROTTLED = Failure(429, "TooManyRequestsException", message="Rate exceeded", path="/PutVectors")
SPACE = "small-model@abc123/fp32/0123456789ab/32"


def planned(source, *, index=ARN, **settings):
    client = IndexClient(index)
    return plan_load(LoadSettings(source=str(source), index=index, **settings), client), client


def work(plan, parts, client, threads=1):
    """Load parts as fast as the local server answers."""
    return load_parts(plan, parts, index=client, limit=RateLimit(1e9), threads=threads)


def load(source, **settings) -> LoadResult:
    """Load a job with two threads."""
    plan, client = planned(source, **settings)
    for _ in work(plan, LAYOUT.missing(plan.folder, plan.parts), client, threads=2):
        pass
    return finish_load(plan, client)


def test_a_load_writes_every_row_once(embed, s3_vectors, index):
    """The key is the id, the numbers are those of the part, and empty values are left out."""
    folder = embed()
    result = load(folder)
    assert result == LoadResult(ROWS, ROWS, 0, 0, len(list(folder.glob("*.parquet"))), SPACE, ARN)
    assert result.parts > 3
    assert index.tags == {SPACE_TAG: SPACE}
    table = pyarrow.parquet.read_table(sorted(folder.glob("*.parquet")))
    assert sorted(index.vectors) == sorted(table["id"].to_pylist())
    for key, numbers in zip(table["id"].to_pylist(), table["embedding"].to_pylist(), strict=True):
        assert np.array_equal(index.vectors[key].numbers, np.array(numbers, np.float32))
    assert index.vectors["d1"].metadata == {"text": "text number 1", "lang": "de"}
    assert sum(len(p["vectors"]) for name, p in s3_vectors.calls if name == "PutVectors") == ROWS


def test_a_job_below_the_folder_is_found_if_it_is_the_only_one(embed, index):
    """With two, the error lists both. A folder without any is refused too."""
    folder = embed()
    assert load(folder.parent).loaded == ROWS
    other = embed(metadata=())
    with pytest.raises(BatchError, match=rf"has 2 batch jobs \(.*{other.name}.*\)\. Give the fold"):
        load(folder.parent)
    with pytest.raises(BatchError, match="docs has no batch job"):
        load(folder.parents[1] / "docs")
    with pytest.raises(BatchError, match="has no batch job"):
        load(folder / "_job")


def test_an_interrupted_load_continues_and_a_complete_one_writes_all_again(
    embed, s3_vectors, index
):
    """So a vector that was deleted comes back with the next load."""
    folder = embed()
    plan, client = planned(folder)
    for _ in work(plan, plan.parts[:2], client):
        pass
    with pytest.raises(IncompleteJobError, match=r"are not done yet \(part-000002,"):
        finish_load(plan, client)
    assert load(folder).loaded == ROWS
    assert s3_vectors.count("PutVectors") == len(plan.parts)
    index.vectors.clear()
    assert load(folder).loaded == ROWS == len(index.vectors)
    (loads,) = (folder / "_load").iterdir()
    assert loads.name == Path(plan.folder).parent.name
    assert (loads / "1" / "manifest.json").exists()


def test_a_worker_that_dies_between_put_and_record_writes_the_same_vectors_again(
    embed, index, monkeypatch
):
    """A vector that is written twice is the same vector, so nothing is there twice."""
    folder = embed()

    def die() -> None:
        raise SystemExit

    plan, client = planned(folder)
    with monkeypatch.context() as patched:
        patched.setattr("jobs.storage.Folder.create", lambda *_: die())
        with pytest.raises(SystemExit):
            next(work(plan, plan.parts[:1], client))
    written = dict(index.vectors)
    assert written
    assert load(folder).loaded == ROWS == len(index.vectors)
    for key, (numbers, metadata) in written.items():
        assert np.array_equal(index.vectors[key].numbers, numbers)
        assert index.vectors[key].metadata == metadata


def test_duplicate_workers_load_a_part_once_in_the_counts(embed, index):
    """The second one finds the record of the first."""
    plan, client = planned(embed())
    outcomes = list(work(plan, [*plan.parts, *plan.parts], client, threads=4))
    assert sum(outcome.written for outcome in outcomes) == len(plan.parts)
    assert finish_load(plan, client).loaded == ROWS == len(index.vectors)


def test_a_throttled_request_is_tried_again(embed, s3_vectors, index):
    """After some attempts it is an error that another attempt of the part may cure."""
    folder = embed()
    s3_vectors.failures = [THROTTLED] * 2
    assert load(folder).loaded == ROWS
    s3_vectors.failures = [THROTTLED] * 100
    with pytest.raises(UnavailableError, match="S3 Vectors refused: Rate exceeded"):
        load(folder)
    s3_vectors.failures = []
    assert load(folder).loaded == ROWS


def test_another_vector_space_is_refused_before_a_vector_is_written(embed, index):
    """The index keeps the vectors and the tag that it has."""
    folder = embed()
    index.tags[SPACE_TAG] = "other@1/int8/2/32"
    with pytest.raises(
        VectorSpaceError, match=f"vectors of other@1/int8/2/32; these are of {SPACE}"
    ):
        load(folder)
    index.tags.clear()
    index.dimension = 64
    with pytest.raises(VectorSpaceError, match="The index has 64 dimensions; the job's vectors ha"):
        load(folder)
    assert (index.tags, index.vectors) == ({}, {})


def test_two_first_loads_of_different_models_do_not_mix(embed, index):
    """The one that recorded its vector space last wins; the other fails when it looks again."""
    plan, client = planned(embed())
    list(work(plan, plan.parts, client))
    index.tags[SPACE_TAG] = "other@1/int8/2/32"
    with pytest.raises(VectorSpaceError, match="One index has the vectors of one vector space"):
        finish_load(plan, client)


def test_a_first_load_whose_tag_was_overwritten_writes_nothing(embed, index):
    """Another load's tag comes after its own, before either has written a vector."""
    client = IndexClient(ARN)
    client._client.meta.events.register(
        "after-call.s3vectors.TagResource",
        lambda **_: index.tags.update({SPACE_TAG: "other@1/int8/2/32"}),
    )
    with pytest.raises(VectorSpaceError, match="The index has vectors of other@1/int8/2/32"):
        plan_load(LoadSettings(source=str(embed()), index=ARN), client)
    assert index.tags == {SPACE_TAG: "other@1/int8/2/32"}


@pytest.mark.parametrize("rows", [ROWS - 1, ROWS + 1])
def test_parts_with_another_number_of_rows_than_the_job_are_refused(embed, index, rows):
    """Neither lost nor added rows are a load that succeeds."""
    folder = embed()
    part = folder / "part-000001.parquet"
    table = pyarrow.parquet.read_table(part)
    other = arrow.concat_tables([table, table.slice(0, 1)]) if rows > ROWS else table.slice(1)
    pyarrow.parquet.write_table(other, part)
    with pytest.raises(BatchError, match=f"parts have {rows} rows; the result of the job says 60"):
        load(folder)


def test_a_part_ends_after_the_time_of_its_last_vectors(embed, index):
    """AWS's rate is that of all writers, and the next part may be another machine's."""
    clock = Clock()
    plan, client = planned(embed())
    limit = RateLimit(1, now=clock.read, sleep=clock.sleep)
    (outcome,) = load_parts(plan, plan.parts[:1], index=client, limit=limit, threads=1)
    assert clock.now - 100 == outcome.counts.loaded > 1


def test_a_part_of_another_job_is_refused(embed, index, tmp_path):
    """Its footer has another vector space. A file that changed after the plan is refused too."""
    folder = embed()
    part = folder / "part-000001.parquet"
    table = pyarrow.parquet.read_table(part)
    foreign = table.replace_schema_metadata({"vector_space": "other@1/int8/2/32"})
    pyarrow.parquet.write_table(foreign, part)
    with pytest.raises(VectorSpaceError, match=r"part-000001\.parquet has vectors of other@1/int8"):
        load(folder)
    pyarrow.parquet.write_table(table.drop_columns(["lang"]), part)
    with pytest.raises(BatchError, match="was not written by this batch job"):
        load(folder)
    part.write_bytes(b"no Parquet")
    with pytest.raises(BatchError, match="was not written by this batch job"):
        load(folder)
    # The plan that was made before names the file's earlier content.
    plan, client = planned(folder)
    part.write_bytes(b"no Parquet, and changed")
    with pytest.raises(ChangedInputError, match="changed after the job was planned"):
        list(work(plan, plan.parts[1:2], client))


def test_a_job_that_is_not_as_its_result_says_is_not_loaded(embed, index):
    """Its result is missing, or one of its parts; or another file looks like a part."""
    folder = embed()
    (folder / "part-999999.parquet").write_bytes((folder / "part-000001.parquet").read_bytes())
    with pytest.raises(BatchError, match="parts; the job wrote"):
        load(folder)
    (folder / "part-999999.parquet").unlink()
    (folder / "part-000001.parquet").rename(folder / "kept")
    with pytest.raises(BatchError, match="parts; the job wrote"):
        load(folder)
    (folder / "kept").rename(folder / "part-000001.parquet")
    (folder / "_job" / "manifest.json").unlink()
    with pytest.raises(BatchError, match="is not complete: `embed batch resume` continues it"):
        load(folder)
    assert not index.vectors


def test_vectors_of_another_number_type_are_refused(embed, index):
    """S3 Vectors takes float32 only."""
    with pytest.raises(BatchError, match=r"takes float32\. Start the batch job without --dtype"):
        load(embed(dtype="int8"))
    assert not index.vectors


def test_rows_that_aws_would_refuse_are_rejected_with_the_reason(embed, index):
    """All others are in the index. The list never has the text."""
    rows = [
        *map(row, range(10)),
        {"id": "x" * 1025, "text": "text long", "lang": "de"},
        {"id": "wide", "text": "text wide", "lang": "secret " * 400},
    ]
    folder = embed(rows)
    with pytest.raises(RejectedRowsError, match=r"2 of 12 rows were rejected \(16\.7%\); the lo"):
        load(folder)
    assert len(index.vectors) == 10
    lists = [path.read_text() for path in sorted(folder.glob("_load/*/0/rejected/*.jsonl"))]
    problems = [json.loads(line)["problem"] for text in lists for line in text.splitlines()]
    assert problems == [
        "the id has 1025 characters; 1 to 1024 are allowed",
        "2,811 bytes of filterable metadata; up to 2,048 are allowed",
    ]
    assert "secret" not in "".join(lists)
    assert load(folder, max_rejected_percent=20.0).rejected == 2


def test_the_last_row_with_an_id_is_in_the_index(embed, index):
    """AWS would keep the last one, too; the counts say how many were replaced."""
    result = load(embed([row(1), {**row(1), "text": "text again"}, row(2)]))
    assert (result.rows, result.loaded, result.replaced) == (3, 2, 1)
    assert index.vectors["d1"].metadata["text"] == "text again"


def test_columns_are_chosen_and_the_text_has_its_own_key(embed, index):
    """The text of a job is `text` in the index, whatever the name of its column."""
    rows = [{"id": "a", "body": "text of the body", "lang": "de", "url": "u"}]
    folder = embed(rows, text="body", metadata=("lang", "url", "body"))
    load(folder, metadata=("lang",))
    assert index.vectors["a"].metadata == {"lang": "de", "text": "text of the body"}
    load(folder, metadata=())
    assert index.vectors["a"].metadata == {"text": "text of the body"}
    with pytest.raises(BatchError, match="no column ages; it has lang, url, body"):
        load(folder, metadata=("ages",))
    rows = [{"id": "a", "body": "text of the body", "text": "summary"}]
    with pytest.raises(BatchError, match="Two columns would be loaded as text: body and text"):
        load(embed(rows, text="body", metadata=("text", "body")))


def test_other_columns_are_another_load(embed, index):
    """One that was interrupted is not continued with them: some vectors would lack a key."""
    folder = embed()
    plan, client = planned(folder, metadata=())
    list(work(plan, plan.parts[:2], client))
    assert load(folder, metadata=("lang",)).loaded == ROWS
    assert all("lang" in vector.metadata for vector in index.vectors.values())


def test_columns_that_cannot_be_metadata_are_refused(embed, index):
    """Before a vector is written: more than AWS takes for a vector, or bytes."""
    names = [f"k{number}" for number in range(50)]
    folder = embed(
        [{"id": "a", "text": "text", **dict.fromkeys(names, "x")}], metadata=(*names, "text")
    )
    with pytest.raises(BatchError, match="51 columns are to be loaded; AWS takes 50 keys"):
        load(folder)
    part = folder / "part-000000.parquet"
    table = pyarrow.parquet.read_table(part)
    as_bytes = table["k1"].cast(arrow.binary())
    other = table.set_column(table.schema.get_field_index("k1"), "k1", as_bytes)
    pyarrow.parquet.write_table(other, part)
    with pytest.raises(BatchError, match="k1 has the type binary, which cannot be metadata"):
        load(folder, metadata=("k1",))
    assert not index.vectors


def test_a_job_of_no_rows_is_a_load_of_no_vectors(embed, s3_vectors, index):
    """The index has its vector space all the same."""
    assert load(embed([])).rows == 0
    assert index.tags == {SPACE_TAG: SPACE}
    assert s3_vectors.count("PutVectors") == 0


@pytest.mark.parametrize(
    ("arn", "problem"),
    [
        ("docs", "must be given by its ARN, which `scripts/deploy` prints as IndexArn; found 'doc"),
        (ARN + "2", "S3 Vectors refused: not found"),
    ],
)
def test_an_index_that_is_not_there(embed, index, arn, problem):
    """The error has the value."""
    with pytest.raises(BatchError, match=problem):
        planned(embed(), index=arn)


def test_s3_vectors_that_is_not_there(embed, index, monkeypatch):
    """A connection that fails may be tried again."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3VECTORS", "http://127.0.0.1:1")
    with pytest.raises(UnavailableError, match="S3 Vectors cannot be reached: Could not connect"):
        load(embed())


def test_a_load_leaves_the_job_as_it_was(embed, index):
    """Readers of Parquet ignore its records, and another load of the folder is another job's."""
    folder = embed()
    before = {path.name: path.read_bytes() for path in folder.glob("*.parquet")}
    load(folder)
    assert {path.name: path.read_bytes() for path in folder.glob("*.parquet")} == before
    assert {path.name for path in folder.iterdir()} - set(before) == {"_job", "_load"}
