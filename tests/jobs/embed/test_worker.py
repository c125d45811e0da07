"""A shard is embedded once, whatever happens to the runs of its worker."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as arrow
import pyarrow.parquet
import pytest

from embedder.core.engine import Engine
from embedder.core.errors import InferenceError
from embedder.core.quantization import quantize
from jobs.embed.job import Job, Shard
from jobs.embed.run import plan_shards
from jobs.embed.worker import embed_shard
from jobs.errors import BatchError, ChangedInputError
from jobs.storage import Folder, open_folder

ROWS = [{"id": f"d{number}", "text": f"text {number}", "n": number} for number in range(20)]


@pytest.fixture
def output(tmp_path: Path) -> Folder:
    return open_folder(str(tmp_path / "out"), create=True)


def write(source: Path, rows: list, name: str = "a.jsonl") -> Shard:
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    (source / name).write_text("\n".join(lines))
    (shard,) = plan_shards(
        open_folder(str(source)), Job(source=str(source), destination="x"), size=1 << 20
    )
    return shard


def run(engine: Engine, job: Job, output: Folder, shard: Shard):
    return embed_shard(engine, open_folder(job.source), output, shard, job)


def part(output: Folder, shard: Shard) -> "arrow.Table":
    return pyarrow.parquet.read_table(io.BytesIO(output.read(f"{shard.part}.parquet")))


def test_a_part_has_ids_and_embeddings(engine, job, source, output):
    """The part's rows are the shard's, with the engine's vectors and the vector space."""
    shard = write(source, ROWS)
    outcome = run(engine, job, output, shard)
    table = part(output, shard)
    assert table.schema.field("embedding").type == arrow.list_(arrow.float32(), 32)
    assert table["id"].to_pylist() == [row["id"] for row in ROWS]
    expected = engine.embed([row["text"] for row in ROWS])
    np.testing.assert_array_equal(np.stack(table["embedding"].to_numpy()), expected.vectors)
    assert table.schema.metadata[b"vector_space"].decode() == expected.vector_space
    assert outcome.counts == (20, 0, sum(expected.tokens), expected.vector_space)
    assert outcome.written


@pytest.mark.parametrize("dtype", ["int8", "uint8", "binary", "ubinary"])
def test_vectors_can_be_quantized(engine, job, source, output, dtype):
    """The numbers are those that the endpoint gives for the same dtype."""
    shard = write(source, ROWS)
    run(engine, replace(job, dtype=dtype, dimensions=16), output, shard)
    numbers = quantize(engine.embed([row["text"] for row in ROWS], dimensions=16).vectors, dtype)
    assert part(output, shard)["embedding"].to_pylist() == numbers.tolist()


def test_metadata_is_copied(engine, job, source, output):
    """JSON's metadata becomes text, because a field can have another type in the next row."""
    rows = [*ROWS, {"id": "x", "text": "t", "n": "text"}, {"id": "y", "text": "t", "n": [1]}]
    shard = write(source, [*rows, {"id": "z", "text": "t"}])
    run(engine, replace(job, metadata=("n",)), output, shard)
    assert part(output, shard)["n"].to_pylist() == [*map(str, range(20)), "text", "[1]", None]


def test_parquets_metadata_keeps_its_type(engine, job, source, output):
    """A column of a Parquet file has the same type in the output."""
    times = arrow.array([None, 86_400_000], arrow.timestamp("ms", "UTC"))
    pyarrow.parquet.write_table(
        arrow.table({"id": [1, 2], "text": ["a", "b"], "at": times}), source / "a.parquet"
    )
    job = replace(job, metadata=("at",))
    (shard,) = plan_shards(open_folder(str(source)), job, size=1000)
    run(engine, job, output, shard)
    table = part(output, shard)
    assert table["at"].combine_chunks() == times
    assert table["id"].to_pylist() == ["1", "2"]


@pytest.mark.parametrize(
    "kind",
    [
        arrow.string(),
        arrow.large_string(),
        arrow.string_view(),
        arrow.dictionary(arrow.int8(), arrow.string()),
        arrow.dictionary(arrow.int32(), arrow.large_string()),
    ],
    ids=str,
)
def test_text_is_the_same_type_in_every_format(engine, job, source, output, kind):
    """JSONL, CSV and each of Arrow's types of text can be the metadata of one job."""
    (source / "a.jsonl").write_text('{"id": "a", "text": "a", "lang": "en"}')
    (source / "b.csv").write_text("id,text,lang\nb,b,de\n")
    table = arrow.table({"id": ["c"], "text": ["c"], "lang": arrow.array(["fr"], kind)})
    pyarrow.parquet.write_table(table, source / "c.parquet")
    job = replace(job, metadata=("lang",))
    shards = list(plan_shards(open_folder(str(source)), job, size=1000))
    for shard in shards:
        run(engine, job, output, shard)
    tables = [part(output, shard) for shard in shards]
    assert arrow.concat_tables(tables)["lang"].to_pylist() == ["en", "de", "fr"]


def test_rows_without_an_id_are_named_by_their_place(engine, job, source, output):
    """Without an id field, the id is the file and where the row begins."""
    shard = write(source, ['{"text": "a"}', '{"text": "b"}'])
    run(engine, replace(job, id=None), output, shard)
    assert part(output, shard)["id"].to_pylist() == ["a.jsonl:0", "a.jsonl:14"]


#: A row, its id in the list of rejected rows, and the reason there.
REJECTED: list[tuple[object, str | None, str]] = [
    (
        "{broken",
        None,
        "is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    ("[1]", None, "is not an object; found list"),
    ({"id": "empty", "text": "  "}, "empty", "has no text in 'text': '  '"),
    ({"id": "none", "body": "secret"}, "none", "has no 'text'; it has 'id', 'body'"),
    ({"id": "number", "text": 5}, "number", "has no text in 'text': int"),
    ({"id": "list", "text": ["secret"]}, "list", "has no text in 'text': list"),
    ({"text": "secret"}, None, "has no id in 'id'"),
    (
        {"id": "long", "text": "secret " * 15},
        "long",
        "has 17 tokens, special tokens and prompt included; the model allows 16.",
    ),
    (
        '{"id": "a", "text": "\\ud800"}',
        None,
        "is not JSON: no low surrogate in string: line 1 column 22 (char 21)",
    ),
    ({"id": {"a": 1}, "text": "secret"}, "{'a': 1}", "has no id in 'id'"),
    (
        '{"id": "a", "text": "secret", "text": "secret"}',
        None,
        "is not JSON: the key 'text' is twice in an object, and is allowed once",
    ),
]


def test_bad_rows_are_listed_with_reasons(engine, job, source, output):
    """A rejected row has its place, its id and a reason that quotes no text."""
    shard = write(source, [{"id": "good", "text": "fine"}, *(row for row, _, _ in REJECTED)])
    outcome = run(engine, job, output, shard)
    assert (outcome.counts.rows, outcome.counts.rejected) == (1, len(REJECTED))
    data = output.read("_rejected/part-000000.jsonl")
    assert b"secret" not in data
    listed = [json.loads(line) for line in data.splitlines()]
    assert [(row["id"], row["problem"]) for row in listed] == [
        (name, problem) for _, name, problem in REJECTED
    ]
    assert listed[0] == {"file": "a.jsonl", "byte": 31, "id": None, "problem": listed[0]["problem"]}
    assert part(output, shard)["id"].to_pylist() == ["good"]


def test_a_shard_without_good_rows_has_an_empty_part(engine, job, source, output):
    """The part exists, so that the shard counts as done."""
    shard = write(source, ["{broken"])
    assert run(engine, job, output, shard).counts[:3] == (0, 1, 0)
    assert len(part(output, shard)) == 0
    assert not run(engine, job, output, shard).written


def test_a_second_run_does_not_embed_again(engine, job, source, output, session):
    """A shard with a part costs one look; its counts are those of the first run."""
    shard = write(source, ROWS)
    first = run(engine, job, output, shard)
    runs = len(session.shapes)
    second = run(engine, job, output, shard)
    assert len(session.shapes) == runs
    assert (second.counts, second.written) == (first.counts, False)


def test_overlapping_runs_write_one_part(engine, job, source, output, monkeypatch):
    """If another run finishes first, its part stays, and it has the same bytes."""
    shard = write(source, [*ROWS, "{broken"])
    create = output.create

    def late(key: str, data: bytes) -> bool:
        assert create(key, data)  # the other run, a moment earlier
        return create(key, data)

    monkeypatch.setattr(output, "create", late)
    assert not run(engine, job, output, shard).written
    assert part(output, shard)["id"].to_pylist() == [row["id"] for row in ROWS]
    other = open_folder(f"{job.destination}/other", create=True)
    assert run(engine, job, other, shard).written
    key = f"{shard.part}.parquet"
    assert other.read(key) == output.read(key)


@pytest.mark.parametrize("moment", ["write", "create"])
def test_a_run_that_dies_can_be_repeated(engine, job, output, monkeypatch, moment):
    """After a failure to write the rejected rows or the part, a second run succeeds."""
    shard = write(Path(job.source), [*ROWS, "{broken"])

    def dies(key: str, data: bytes) -> bool:
        raise BatchError("the disk is full")

    with monkeypatch.context() as context:
        context.setattr(output, moment, dies)
        with pytest.raises(BatchError, match="the disk is full"):
            run(engine, job, output, shard)
    assert run(engine, job, output, shard).written
    assert len(part(output, shard)) == len(ROWS)
    assert len(output.read("_rejected/part-000000.jsonl").splitlines()) == 1


def test_a_changed_input_is_not_embedded(engine, job, source, output):
    """A file that changed after the plan is an error, and the shard has no part."""
    shard = write(source, ROWS)
    (source / "a.jsonl").write_text('{"id": "other", "text": "other"}\n' * 40)
    with pytest.raises(ChangedInputError, match=r"a\.jsonl changed after the job was planned"):
        run(engine, job, output, shard)
    assert list(output.files()) == []


def test_a_failing_model_rejects_no_row(engine, job, source, output, session):
    """A failure of the model is the shard's, which can be run again."""
    shard = write(source, ROWS)
    session.failure = RuntimeError("no memory")
    with pytest.raises(InferenceError):
        run(engine, job, output, shard)
    session.failure = None
    assert run(engine, job, output, shard).counts.rows == len(ROWS)


def test_a_file_that_is_no_part_is_an_error(engine, job, source, output):
    """A foreign file with the name of a part is neither overwritten nor counted."""
    shard = write(source, ROWS)
    output.create(f"{shard.part}.parquet", b"something else")
    with pytest.raises(BatchError, match=r"part-000000\.parquet was not written by a batch job"):
        run(engine, job, output, shard)
    assert output.read(f"{shard.part}.parquet") == b"something else"
