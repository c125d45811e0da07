"""A bad row has the same reason in `embed --file`, in a batch job and in an ingest."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from embedding_client import FileError
from embedding_client._readers import TextSource
from jobs.documents.document import RefusedDocumentError
from jobs.documents.reader import read_document
from jobs.embed.job import Job
from jobs.embed.readers import read_records
from jobs.embed.run import plan_shards
from jobs.errors import BatchError
from jobs.rows import csv_cells
from jobs.storage import open_folder


def embed_file(path):
    """Return why `embed --file` refuses a row, or the file."""
    try:
        (problem,) = [row.problem for row in TextSource(path).rows() if row.problem]
    except FileError as error:
        return str(error).removeprefix(f"{path} ")
    return problem


def batch_job(path):
    """Return why a batch job rejects a row, or the plan fails."""
    job, folder = Job(source="in", destination="out"), open_folder(str(path.parent))
    try:
        (shard,) = plan_shards(folder, job, size=1 << 20)
    except BatchError as error:
        return str(error).removeprefix(f"{path.name} ")
    (problem,) = [record.problem for record in read_records(folder, shard, job) if record.problem]
    return problem


def ingest(path):
    """Return why an ingest refuses a document."""
    with pytest.raises(RefusedDocumentError) as caught:
        read_document(path.name, path.read_bytes(), {}, wanted=())
    return str(caught.value)


#: A file, and why one of its rows, or the file, is refused.
REFUSED = [
    ("a.jsonl", b'"', "is not JSON: Unterminated string starting at: line 1 column 1 (char 0)"),
    ("a.jsonl", b'{"text"\n', "is not JSON: Expecting ':' delimiter: line 1 column 8 (char 7)"),
    ("a.jsonl", b'{"text": 5}', "has no text in 'text': int"),
    ("a.jsonl", b'{"text": true}', "has no text in 'text': bool"),
    ("a.jsonl", b'{"text": ["secret"]}', "has no text in 'text': list"),
    ("a.csv", b"text,n\na,1,2\n", "has 3 cells; the header has 2"),
]
REFUSED_FILES = [
    ("a.csv", b"n,text,n\n1,2,3\n", "has more than one column named 'n'. Column names must be "),
    (
        "a.csv",
        b"id,a;text\n1,2;3\n",
        "may be separated by ',' or ';'; a first line sep=, or sep=; d",
    ),
    ("a.csv", b"text score\n1 2.5\n", "is separated by blanks; allowed are , ; tab and |"),
]
#: What an ingest takes, as it shows all fields of a row without a text, or refuses as a whole.
REFUSED_FOR_EMBEDDING = [
    ("a.jsonl", b'{"text": " "}', "has no text in 'text': ' '"),
    ("a.jsonl", b'{"id": 1}', "has no 'text'; it has 'id'"),
    ("a.jsonl", b'{"text": null}', "has no text in 'text': null"),
    ("a.jsonl", b'{"text": "a", "text": "b"}', "is not JSON: the key 'text' is twice in an "),
    ("a.jsonl", b'{"text": "\xe9"}', "is not UTF-8"),
    ("a.csv", b"n,text\n1\n", "has no text in 'text': null"),
    ("a.csv", b"n,text\n1,\xe9\n", "is not UTF-8"),
    # An ingest goes on at the next line, as it has the whole file.
    ("a.csv", b'text\n"never closed\n', "is not CSV: line 2: unexpected end of data"),
]
#: CSV as programs write it.
WRITTEN = {
    "Excel in German": b"\xef\xbb\xbfid;text;price\r\n1;a, b | c;3,50\r\n",
    "Excel with its own first line": b'sep=;\r\nid;text\r\n1;"a, b | c"\r\n',
    "PostgreSQL's COPY": b"id\ttext\n1\ta, b | c\n",
    "Oracle's SQL*Plus": b'"id"|"text"|"d;e"\n1|"a, b | c"|2\n',
    "a German header with a comma": b"Datum;Betrag, EUR;text\n1.1.;3,50;a, b | c\n2.1.;4,50;\n",
    "R": b'"","text","more"\n"1","a, b | c",NA\n',
    "a spreadsheet with empty columns": b'\n,text,,\n1,"a, b | c",,,\n',
    "a header alone with a semicolon": b'text,"what; why"\n"a, b | c",x;y\n',
}


@pytest.mark.parametrize(("name", "content", "problem"), REFUSED)
def test_a_bad_row_has_the_same_reason_in_every_program(tmp_path, name, content, problem):
    """An ingest, which refuses the document, says the line, too."""
    path = tmp_path / name
    path.write_bytes(content)
    assert (embed_file(path), batch_job(path)) == (problem, problem)
    assert ingest(path) == f"line {1 + path.name.endswith('csv')} {problem}"


@pytest.mark.parametrize(("name", "content", "problem"), REFUSED_FILES)
def test_a_bad_file_has_the_same_reason_in_every_program(tmp_path, name, content, problem):
    """It continues after the name of the file."""
    path = tmp_path / name
    path.write_bytes(content)
    assert embed_file(path).startswith(problem)
    assert batch_job(path) == embed_file(path)
    assert ingest(path) == f"it {embed_file(path).removesuffix('.')}"


@pytest.mark.parametrize(("name", "content", "problem"), REFUSED_FOR_EMBEDDING)
def test_a_row_without_a_text_has_the_same_reason(tmp_path, name, content, problem):
    """The client adds what to do."""
    path = tmp_path / name
    path.write_bytes(content)
    assert embed_file(path).startswith(problem)
    assert batch_job(path).startswith(problem)


@pytest.mark.parametrize("content", WRITTEN.values(), ids=WRITTEN)
def test_every_program_finds_the_separator(tmp_path, content):
    """By the first lines, so users need not convert what Excel writes in their language."""
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    assert next(TextSource(path).rows()).text == "a, b | c"
    job, folder = Job(source="in", destination="out"), open_folder(str(tmp_path))
    shards = list(plan_shards(folder, job, size=1))
    records = [record for shard in shards for record in read_records(folder, shard, job)]
    assert records[0].text == "a, b | c"
    assert read_document("a.csv", content, {}, wanted=()).blocks[0].text == "a, b | c"


@pytest.mark.parametrize("content", [b'["a"]', b"5"])
def test_another_value_of_json_is_no_row(tmp_path, content):
    """`embed --file` takes a string for a row, and the others take none."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    kind = "list" if content.startswith(b"[") else "int"
    assert embed_file(path) == f"is neither an object nor a string; found {kind}"
    assert batch_job(path) == f"is not an object; found {kind}"
    assert ingest(path) == f"line 1 is not an object; found {kind}"


def test_a_row_of_csv_has_the_line_on_which_it_begins():
    """A cell in quotes may have several lines, and up to 128 Mi characters."""
    long = "x" * 200_000
    rows = csv_cells(["a\n", '"b\n', 'c"\n', "\n", f"{long}\n", '"d'])
    assert [next(rows) for _ in range(4)] == [(1, ["a"]), (2, ["b\nc"]), (4, []), (5, [long])]
    with pytest.raises(csv.Error, match="is not CSV: line 6: unexpected end of data"):
        next(rows)


def test_the_module_needs_the_standard_library_alone():
    """The batch image has it without the client, and the client without the image's libraries."""
    path = {"PYTHONPATH": str(Path(__file__).parents[2] / "lambda_image" / "jobs")}
    command = [sys.executable, "-S", "-c", "import rows; print(rows.json_fields('{}'))"]
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    assert done.stdout == "({}, None)\n"
