"""Shards of any size cover each row of each file exactly once."""

import csv
import gzip
import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as arrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from embedder.core.artifact import FileEntry
from jobs.embed.errors import BatchError
from jobs.embed.job import Job
from jobs.embed.planning import LAMBDA_SCANNED_BYTES, plan_shards, shard_bytes
from jobs.embed.readers import read_records
from jobs.embed.storage import open_folder
from tests.embedder.small_model import manifest_of

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


def parquet(texts: list[str]) -> bytes:
    file = io.BytesIO()
    table = arrow.table({"id": list(range(len(texts))), "text": arrow.array(texts, arrow.string())})
    pyarrow.parquet.write_table(table, file, row_group_size=4)
    return file.getvalue()


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
def test_each_row_is_in_one_shard(source: Path, job: Job, name: str, texts, size) -> None:
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
def test_a_large_file_has_shards_of_the_wanted_size(source: Path, job: Job, name: str) -> None:
    """Shards are about as large as wanted, and each begins where the one before ends."""
    texts = [f"text {number} of a file" for number in range(100_000)]
    (source / name).write_bytes(FORMATS[name](texts) if name != "a.parquet" else _groups(texts))
    size = 64 * 1024
    shards = list(plan_shards(open_folder(str(source)), job, size=size))
    if name != "a.parquet":
        assert all(one.stop == two.start for one, two in pairwise(shards))
        assert all(size / 2 < shard.stop - shard.start <= size + 50 for shard in shards[:-1])
    else:
        assert sum(shard.stop - shard.start for shard in shards) == len(texts)
    assert len(shards) > 25


def _groups(texts: list[str]) -> bytes:
    file = io.BytesIO()
    table = arrow.table({"id": list(map(str, range(len(texts)))), "text": texts})
    pyarrow.parquet.write_table(table, file, row_group_size=50_000, use_dictionary=False)
    return file.getvalue()


def test_several_files_are_one_plan(source: Path, job: Job) -> None:
    """Files are planned in the order of their paths, without those that begin with `.` or `_`."""
    (source / "b").mkdir()
    (source / "b" / "2.jsonl").write_bytes(jsonl(["two"]))
    (source / "1.csv").write_bytes(csv_file(["one"]))
    (source / "_SUCCESS").write_bytes(b"")
    (source / ".part.crc").write_bytes(b"")
    shards = list(plan_shards(open_folder(str(source)), job, size=1000))
    assert [(shard.number, shard.key) for shard in shards] == [(0, "1.csv"), (1, "b/2.jsonl")]


def test_an_empty_folder_has_no_shards(source: Path, job: Job) -> None:
    """An input without files, or with empty files, gives an empty plan."""
    assert list(plan_shards(open_folder(str(source)), job, size=10)) == []
    (source / "a.jsonl").touch()
    (source / "b.parquet").write_bytes(parquet([]))
    assert list(plan_shards(open_folder(str(source)), job, size=10)) == []


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("notes.txt", b"x", r"notes\.txt has no known format\. Names must end in \.jsonl, "),
        ("a.csv", b"", r"a\.csv is empty; a CSV file begins with the names of its columns\."),
        ("a.csv", b"id,id,text\n", r"a\.csv has more than one column named 'id'\."),
        ("a.csv", b"id,body\n", r"a\.csv has no column 'text'; it has 'id', 'body'\."),
        ("a.csv", b'id,text\n1,"a"b\n', r"a\.csv is not CSV at byte 15: ',' expected after"),
        ("a.jsonl.gz", b"no gzip", r"a\.jsonl\.gz is damaged: Not a gzipped file"),
        ("a.jsonl.gz", CUT_OFF, r"a\.jsonl\.gz is damaged: .*ended before"),
        ("a.parquet", b"no parquet file at all", r"a\.parquet is not valid Parquet: "),
    ],
)
def test_a_bad_file_is_named(source: Path, job: Job, name: str, data: bytes, message: str) -> None:
    """A file that cannot be planned is an error with its name and the reason."""
    (source / name).write_bytes(data)
    with pytest.raises(BatchError, match=message):
        list(plan_shards(open_folder(str(source)), job, size=10))


def test_a_parquet_file_without_the_field_is_refused(source: Path, job: Job) -> None:
    """The error names the column and those that exist."""
    (source / "a.parquet").write_bytes(parquet(["x"]))
    with pytest.raises(BatchError, match=r"a\.parquet has no column 'body'; it has 'id', 'text'\."):
        list(plan_shards(open_folder(str(source)), replace(job, text="body"), size=10))


@pytest.mark.parametrize(
    ("name", "gibibytes", "content"), [("a.csv", 33, "33.0"), ("a.jsonl.gz", 9, "36.0")]
)
def test_files_that_lambda_cannot_read_in_time_are_refused(
    source: Path, job: Job, name: str, gibibytes: int, content: str
) -> None:
    """The error has the limit and the size of the content, and comes before a file is read."""
    with (source / name).open("wb") as file:
        file.truncate(gibibytes << 30)  # without blocks on the disk
    message = rf"Up to 32 GiB of content .*; with {name} there are about {content} GiB, "
    folder = open_folder(str(source))
    with pytest.raises(BatchError, match=message):
        list(plan_shards(folder, job, size=10, most_scanned=LAMBDA_SCANNED_BYTES))


def test_this_machine_reads_files_of_any_size(source: Path, job: Job) -> None:
    """Without a limit the plan begins to read the file."""
    (source / "a.csv").write_bytes(csv_file(["x", "y"]))
    folder = open_folder(str(source))
    with pytest.raises(BatchError, match="Up to 0 GiB"):
        list(plan_shards(folder, job, size=10, most_scanned=1))
    assert list(plan_shards(folder, job, size=10))


@pytest.mark.parametrize("name", ["a.jsonl", "c.jsonl", "c.csv", "c.parquet"])
def test_metadata_of_other_types_is_refused(source: Path, job: Job, name: str) -> None:
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


def test_larger_models_get_smaller_shards(job: Job) -> None:
    """The size follows from the weights, between 16 KiB and 512 KiB, unless the job states one."""
    manifest = manifest_of()

    def size(weights: int) -> int:
        files = {"model.onnx.data": FileEntry(weights, ""), "model.onnx.rows": FileEntry(9**12, "")}
        return shard_bytes(job, manifest._replace(files=files))

    assert size(1_000_000) == size(12_000_000) == 512 * 1024
    assert size(120_000_000) == 512 * 1024 // 10
    assert size(10**10) == 16 * 1024
    assert shard_bytes(replace(job, shard_bytes=77), manifest) == 77
