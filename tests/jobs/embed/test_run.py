"""A job is planned, embedded in steps, continued and checked."""

import csv
import gzip
import io
import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedder.core.artifact import FileEntry
from embedder.core.engine import Engine
from embedding_client._jobs import parse_run
from jobs.embed.job import LAYOUT
from jobs.embed.readers import read_records
from jobs.embed.run import EmbedSteps, finish_job, plan_job, plan_shards, read_plan, shard_bytes
from jobs.errors import BatchError, ChangedModelError, IncompleteJobError, RejectedRowsError
from jobs.storage import S3Folder, open_folder
from tests.embedder.small_model import WordTokenizer, manifest_of
from tests.jobs.embed.conftest import embed_shards

LINES = [json.dumps({"id": f"d{number}", "text": f"text {number}"}) for number in range(40)]
DEFAULTS = {"source": "s3://in/docs/", "destination": "s3://out/vectors/"}
JOB = {"id": "id", "shard_bytes": 300, "max_rejected_percent": 5.0}
# No lone surrogates: those are tested as rejected rows.
TEXTS = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=30).map(
        lambda text: f"x{text}"
    ),
    max_size=25,
)
SHARED_FOLDER = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60
)


def jsonl(texts: list[str]) -> bytes:
    lines = [
        json.dumps({"id": number, "text": text}, ensure_ascii=number % 2 == 0)
        for number, text in enumerate(texts)
    ]
    return "\n".join(lines).encode()


def csv_file(texts: list[str]) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["id", "text"])
    writer.writerows(enumerate(texts))
    return file.getvalue().encode()


def parquet(texts: list[str], *, text: str = "text", **options: Any) -> bytes:
    file = io.BytesIO()
    table = arrow.table({"id": list(range(len(texts))), text: arrow.array(texts, arrow.string())})
    pyarrow.parquet.write_table(table, file, **{"row_group_size": 4, **options})
    return file.getvalue()


TWICE = io.BytesIO()
pyarrow.parquet.write_table(arrow.table([[1], ["a"], ["b"]], ["id", "text", "text"]), TWICE)
# Without the time of day, which would be in the test's name: the workers of xdist must agree on it.
CUT_OFF = gzip.compress(b"x" * 99, mtime=0)[:-9]

FORMATS = {
    "a.jsonl": jsonl,
    "a.jsonl.gz": lambda texts: gzip.compress(jsonl(texts)),
    "a.csv": csv_file,
    "a.csv.gz": lambda texts: gzip.compress(csv_file(texts)),
    "a.parquet": parquet,
}


@pytest.mark.parametrize("name", FORMATS)
@SHARED_FOLDER
@given(texts=TEXTS, size=st.integers(1, 200))
def test_each_row_is_in_one_shard(source, job, name, texts, size):
    """The records of all shards, in order, are the rows of the file."""
    (source / name).write_bytes(FORMATS[name](texts))
    folder = open_folder(str(source))
    shards = list(plan_shards(folder, job, size=size))
    records = [record for shard in shards for record in read_records(folder, shard, job)]
    assert [(record.id, record.text, record.problem) for record in records] == [
        (str(number), text, None) for number, text in enumerate(texts)
    ]
    assert [shard.number for shard in shards] == list(range(len(shards)))


@pytest.mark.parametrize("name", FORMATS)
def test_a_large_file_has_shards_of_the_wanted_size(source, job, name):
    """Shards are about as large as wanted, and each begins where the one before ends."""
    texts = [f"text {number} of a file" for number in range(100_000)]
    options = {"row_group_size": 50_000, "use_dictionary": False} if name == "a.parquet" else {}
    (source / name).write_bytes(FORMATS[name](texts, **options))
    size = 64 * 1024
    shards = list(plan_shards(open_folder(str(source)), job, size=size))
    if name != "a.parquet":
        assert all(one.stop == two.start for one, two in pairwise(shards))
        assert all(size / 2 < shard.stop - shard.start <= size + 50 for shard in shards[:-1])
    else:
        assert sum(shard.stop - shard.start for shard in shards) == len(texts)
    assert len(shards) > 25


def test_several_files_are_one_plan(source, job):
    """They are in the order of their paths, without any part that begins with `.`, `_` or `~$`."""
    (source / "b").mkdir()
    (source / "b" / "2.jsonl").write_bytes(jsonl(["two"]))
    (source / "1.csv").write_bytes(csv_file(["one"]))
    (source / "_SUCCESS").write_bytes(b"")
    (source / ".part.crc").write_bytes(b"")
    (source / "~$1.csv").write_bytes(b"")
    (source / "b" / "_temporary").mkdir()
    (source / "b" / "_temporary" / "3.jsonl").write_bytes(jsonl(["three"]))
    (source / "b" / ".4.jsonl").write_bytes(jsonl(["four"]))
    shards = list(plan_shards(open_folder(str(source)), job, size=1000))
    assert [(shard.number, shard.key) for shard in shards] == [(0, "1.csv"), (1, "b/2.jsonl")]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize(
    ("folder", "values"),
    [
        ("lang=en/year=2024", ("en", "2024")),
        ("year=__HIVE_DEFAULT_PARTITION__/x/lang=a%2Fb%3D%C3%A9%20c", ("a/b=\u00e9 c", None)),
        ("lang=/unwanted=1/unwanted=2/%79ear=+1", ("", "+1")),
        ("lang=en/year=1/100%FF/caf%E9=%E9", ("en", "1")),
        # The folder counts before the field, which is read nevertheless: it is the text or the id.
        ("lang=x/year=y/text=z/id=7", ("x", "y")),
    ],
)
def test_the_folders_of_a_lake_are_metadata(source, job, name, folder, values):
    """Of each format, with the columns in the file or without them, as DuckDB and Arrow read it."""
    (source / folder).mkdir(parents=True)
    (source / folder / name).write_bytes(FORMATS[name](["words"]))
    names = ("lang", "text", "year")
    job, root = replace(job, metadata=names), open_folder(str(source))
    (shard,) = plan_shards(root, job, size=100)
    (record,) = read_records(root, shard, job)
    text = "z" if "text=z" in folder else "words"
    assert (record.id, record.text) == ("0", "words")
    assert record.metadata == (values[0], text, values[1])


@pytest.mark.parametrize(
    ("folder", "problem"),
    [
        ("lang=a/lang=b", "has the folder 'lang' twice"),
        ("lang=%FF", "is not percent-encoded UTF-8"),
    ],
)
def test_folders_without_a_meaning_are_named(source, job, folder, problem):
    """None of two values is chosen, and no byte is guessed."""
    (source / folder).mkdir(parents=True)
    (source / folder / "a.csv").write_bytes(csv_file(["words"]))
    with pytest.raises(BatchError, match=rf"^{folder}/a\.csv.* {problem}"):
        list(plan_shards(open_folder(str(source)), replace(job, metadata=("lang",)), size=10))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("notes.txt", b"x", r"notes\.txt has no known format\. Names must end in \.jsonl, "),
        ("a.csv", b"", r"a\.csv is empty; a CSV file begins with the names of its columns\."),
        ("a.csv", b"id,id,text\n", r"a\.csv has more than one column named 'id'\."),
        ("a.csv", b"id,body\n", r"a\.csv has no column 'text'; it has 'id', 'body'\."),
        ("a.parquet", TWICE.getvalue(), r"a\.parquet has more than one column named 'text'\."),
        ("a.jsonl.gz", b"no gzip", r"a\.jsonl\.gz is damaged: Not a gzipped file"),
        ("a.jsonl.gz", CUT_OFF, r"a\.jsonl\.gz is damaged: .*ended before"),
        ("a.parquet", b"no parquet file at all", r"a\.parquet is not valid Parquet: "),
        ("a.parquet", parquet(["x"], text="body"), r"a\.parquet has no column 'text'; it has 'id'"),
    ],
)
def test_a_bad_file_is_named(source, job, name, data, message):
    """A file that cannot be planned is an error with its name and the reason."""
    (source / name).write_bytes(data)
    with pytest.raises(BatchError, match=message):
        list(plan_shards(open_folder(str(source)), job, size=10))


@pytest.mark.parametrize(
    ("name", "gibibytes", "content"), [("a.csv", 33, "33.0"), ("a.jsonl.gz", 9, "36.0")]
)
def test_files_that_lambda_cannot_read_in_time_are_refused(source, job, name, gibibytes, content):
    """The error has the limit and the size of the content, and comes before a file is read."""
    with (source / name).open("wb") as file:
        file.truncate(gibibytes << 30)  # without blocks on the disk
    message = rf"Up to 32 GiB of content .*; with {name} there are about {content} GiB, "
    with pytest.raises(BatchError, match=message):
        list(plan_shards(open_folder(str(source)), job, size=10, most_scanned=32 << 30))


@pytest.mark.parametrize("name", ["a.jsonl", "c.jsonl", "c.csv", "c.parquet"])
def test_metadata_of_other_types_is_refused(source, job, name):
    """All files have the same columns in the output."""
    table = arrow.table({"id": [1], "text": ["a"], "year": [2020]})
    pyarrow.parquet.write_table(table, source / "b.parquet")
    if name.endswith("parquet"):
        other = table.set_column(2, "year", arrow.array([2020.0]))
        pyarrow.parquet.write_table(other, source / name)
    elif name.endswith("csv"):
        (source / name).write_text("id,text,year\n1,a,2020\n")
    else:
        (source / name).write_text('{"id": 1, "text": "a", "year": 2020}')
    with pytest.raises(BatchError, match=r"found: 'year' is \w+ in .*; allowed: \w+, as in"):
        list(plan_shards(open_folder(str(source)), replace(job, metadata=("year",)), size=10))


def test_larger_models_get_smaller_shards(job):
    """The size follows from the weights, between 16 KiB and 512 KiB, unless the job states one."""
    manifest = manifest_of()

    def size(weights: int) -> int:
        files = {"model.onnx.data": FileEntry(weights, ""), "model.onnx.rows": FileEntry(9**12, "")}
        return shard_bytes(job, manifest._replace(files=files))

    assert size(1_000_000) == size(12_000_000) == 512 * 1024
    assert size(120_000_000) == 512 * 1024 // 10
    assert size(10**10) == 16 * 1024
    assert shard_bytes(replace(job, shard_bytes=77), manifest) == 77


@pytest.fixture
def plan(source: Path, job, engine):
    (source / "a.jsonl").write_text("\n".join([*LINES[:30], "{broken", *LINES[30:]]))
    return plan_job(replace(job, shard_bytes=300, max_rejected_percent=5.0), engine.manifest)


def test_an_incomplete_job_names_its_shards_and_can_be_continued(engine, plan):
    """After a lost shard the job is incomplete; embedding the missing one completes it."""
    embed_shards(engine, plan, plan.shards[1:])
    count = f"1 of {len(plan.shards)} shards in .*{plan.id} are not done yet "
    with pytest.raises(IncompleteJobError, match=rf"{count}\(part-000000\)\. Start"):
        finish_job(plan)
    assert not Path(plan.folder, "_job", "manifest.json").exists()
    assert LAYOUT.missing(plan.folder, plan.shards) == [plan.shards[0]]
    embed_shards(engine, plan, LAYOUT.missing(plan.folder, plan.shards))
    assert finish_job(plan).rows == 40


@pytest.mark.parametrize(("rows", "fails"), [(99, False), (60, True)])
def test_one_percent_of_the_rows_may_be_rejected_by_default(engine, source, job, rows, fails):
    """A text over the model's limit is such a row: it is not cut."""
    texts = [*(f"text {number}" for number in range(rows)), "word " * 30]
    (source / "a.jsonl").write_bytes(jsonl(texts))
    plan = plan_job(job, engine.manifest)
    embed_shards(engine, plan, plan.shards)
    with pytest.raises(RejectedRowsError, match="allows 1%") if fails else nullcontext():
        assert finish_job(plan)[:2] == (rows, 1)


def test_too_many_rejected_rows_fail_the_job(engine, plan):
    """The error has the numbers; with a higher limit the finished job passes without new work."""
    strict = plan._replace(job=replace(plan.job, max_rejected_percent=2.0))
    embed_shards(engine, strict, plan.shards)
    message = r"1 of 41 rows were rejected \(2\.4%\); the job allows 2%\. .*/_rejected/ lists them"
    with pytest.raises(RejectedRowsError, match=message):
        finish_job(strict)
    assert finish_job(plan).rejected == 1


def test_the_same_job_continues_and_another_does_not(engine, plan, source):
    """Planned again, a job has the same folder. With a changed input it has another."""
    assert plan_job(plan.job, engine.manifest) == plan
    with (source / "a.jsonl").open("a") as file:
        file.write('\n{"id": "new", "text": "new"}')
    changed = plan_job(plan.job, engine.manifest)
    assert changed.folder != plan.folder
    assert Path(plan.folder).parent == Path(changed.folder).parent


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dimensions": 7}, "dimensions must be one of 32, 16, 8; found 7"),
        ({"prompt": "q"}, r"prompt must be one of \(the model has none\); found 'q'"),
    ],
)
def test_a_job_that_the_model_cannot_do_is_refused(engine, job, change, message):
    """The model's dimensions and prompts are checked in the plan, before anything is embedded."""
    with pytest.raises(BatchError, match=message):
        plan_job(replace(job, **change), engine.manifest)


def test_a_part_of_another_space_is_refused(engine, plan):
    """Vectors of two spaces in one folder are an error, not a mixture."""
    embed_shards(engine, plan, plan.shards)
    with pytest.raises(BatchError, match=r"has vectors of small-model.*; the job's are of other"):
        finish_job(plan._replace(vector_space="other"))


def test_a_folder_without_a_plan_is_an_error(tmp_path):
    """The error names the file that is missing."""
    with pytest.raises(BatchError, match=r"_job/job\.json cannot be read"):
        read_plan(str(tmp_path))


@pytest.fixture
def steps(engine) -> EmbedSteps:
    return EmbedSteps(engine)


@pytest.fixture
def planned(steps, s3) -> dict:
    s3.objects["in/docs/a.jsonl"] = "\n".join([*LINES[:30], "{broken", *LINES[30:]]).encode()
    return steps.run({"step": "plan", "defaults": DEFAULTS, "job": JOB})


def shards_of(planned, s3) -> list[dict]:
    """Read the items as the state machine does: a line of the file that the plan names."""
    lines = s3.objects[f"{planned['bucket']}/{planned['shards_key']}"].splitlines()
    return [json.loads(line) for line in lines]


def test_a_plan_says_where_the_state_machine_finds_the_shards(planned, s3):
    """Bucket and key are those of a file with one shard a line; the number of lines is `shards`."""
    assert planned["bucket"] == "out"
    assert planned["folder"] == f"s3://out/vectors/{planned['id']}"
    assert planned["shards_key"] == f"vectors/{planned['id']}/_job/shards.jsonl"
    assert planned["results_prefix"] == f"vectors/{planned['id']}/_job/results"
    assert len(shards_of(planned, s3)) == planned["shards"] > 3


def test_a_job_adds_up(steps, planned, s3):
    """Every shard has a part, and the result has the sums; a shard that runs twice writes once."""
    items = [*shards_of(planned, s3), shards_of(planned, s3)[0]]
    done = [
        steps.run({"step": "shard", "folder": planned["folder"], "shard": item}) for item in items
    ]
    assert [one["written"] for one in done] == [True] * (len(items) - 1) + [False]
    assert done[0]["part"] == "part-000000"
    assert done[-1]["rows"] == done[0]["rows"] > 0
    result = steps.run({"step": "finish", "folder": planned["folder"]})
    assert result["folder"] == planned["folder"]
    assert (result["rows"], result["rejected"], result["shards"]) == (40, 1, planned["shards"])
    assert sum(one["tokens"] for one in done[:-1]) == result["tokens"]
    told = json.loads(s3.objects[f"out/vectors/{planned['id']}/_job/manifest.json"])
    assert told == {"job": planned["id"], **{k: v for k, v in result.items() if k != "folder"}}


def test_each_run_of_a_shard_leaves_a_record_that_the_client_reads(engine, planned, s3):
    """Its name has the counts of the part, the duration and the memory; the file is empty."""
    steps = EmbedSteps(engine, memory_mb=1769)
    before = len(s3.requests)
    for item in shards_of(planned, s3):
        steps.run({"step": "shard", "folder": planned["folder"], "shard": item})
    methods = [method for method, _, _ in s3.requests[before:]]
    result = steps.run({"step": "finish", "folder": planned["folder"]})
    records = {key: data for key, data in s3.objects.items() if "/_job/progress/" in key}
    assert set(records.values()) == {b""}
    runs = [parse_run(key.rpartition("/")[2], datetime.now(UTC)) for key in records]
    assert [run.shard for run in runs] == [f"part-{n:06d}" for n in range(planned["shards"])]
    assert sum(run.rows for run in runs) == result["rows"] == 40
    assert sum(run.rejected for run in runs) == result["rejected"] == 1
    assert sum(run.tokens for run in runs) == result["tokens"]
    assert {run.memory_mb for run in runs} == {1769}
    # What the estimate of the costs assumes; one list of rejected rows is written too.
    assert methods.count("PUT") == 2 * planned["shards"] + 1
    assert len(s3.requests) - before < 12 * planned["shards"]


def test_the_executions_input_replaces_the_defaults(steps, planned, s3):
    """A job may name another folder of the prefixes."""
    s3.objects["in/docs/new/b.jsonl"] = LINES[0].encode()
    job = {"source": "s3://in/docs/new/", "destination": "s3://out/vectors/new", "id": "id"}
    found = steps.run({"step": "plan", "defaults": DEFAULTS, "job": job})
    assert found["shards"] == 1
    assert found["folder"].startswith("s3://out/vectors/new/")


def test_a_plan_must_end_within_lambdas_15_minutes(steps, s3, monkeypatch):
    """CSV and gzip files of more than 32 GiB are refused, with the other ways to embed them."""
    files = S3Folder.files
    monkeypatch.setattr(
        S3Folder, "files", lambda *given: (file._replace(size=33 << 30) for file in files(*given))
    )
    s3.objects["in/docs/a.csv"] = b"id,text\n1,x\n"
    with pytest.raises(BatchError, match=r"Lambda's 15 minutes; .* or run it with --local\."):
        steps.run({"step": "plan", "defaults": DEFAULTS})


def test_an_empty_input_has_no_shards(steps, s3):
    """A job without files, or with empty ones, is complete immediately."""
    assert steps.run({"step": "plan", "defaults": DEFAULTS})["shards"] == 0
    s3.objects |= {"in/docs/a.jsonl": b"", "in/docs/b.parquet": parquet([])}
    found = steps.run({"step": "plan", "defaults": DEFAULTS})
    assert found["shards"] == 0
    assert steps.run({"step": "finish", "folder": found["folder"]})["rows"] == 0


def test_another_model_ends_the_shard(planned, s3, session):
    """A model that is deployed during a job writes nothing into the job's folder."""
    other = manifest_of(max_tokens=16)._replace(vector_space="small-model@def456/fp32/0")
    steps = EmbedSteps(Engine(other, WordTokenizer(), session))
    shard = shards_of(planned, s3)[0]
    before = dict(s3.objects)
    with pytest.raises(ChangedModelError, match=r"was planned with .*; the model is now "):
        steps.run({"step": "shard", "folder": planned["folder"], "shard": shard})
    assert s3.objects == before


@pytest.mark.parametrize("name", ["source", "destination"])
def test_a_folder_of_the_functions_own_disk_is_refused(steps, s3, name):
    """The next shard may run on another machine."""
    with pytest.raises(BatchError, match=f"{name} must be s3://BUCKET/PREFIX; found /tmp/x"):
        steps.run({"step": "plan", "defaults": DEFAULTS, "job": {name: "/tmp/x"}})
