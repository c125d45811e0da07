"""Reading the rows of files."""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from embedding_client import FileError
from embedding_client._readers import TextSource

ROWS = [{"text": "one"}, {"text": "zwei, drei"}, {"text": 'four "five"'}]


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


CONTENTS = {
    "rows.json": json.dumps(ROWS, indent=1),
    "rows.jsonl": "\n".join(json.dumps(row) for row in ROWS) + "\n\n",
    "rows.ndjson": '"one"\n\n"zwei, drei"\r\n"four \\"five\\""',
    "rows.csv": 'text\none\n"zwei, drei"\n"four ""five"""\n\n',
    "rows.tsv": 'text\none\nzwei, drei\n"four ""five"""\n',
    "rows.txt": 'one\r\nzwei, drei\nfour "five"\n \n\n',
}


@pytest.fixture(params=[*CONTENTS, *(f"{name}.gz" for name in CONTENTS), "rows.parquet"])
def file(request, tmp_path):
    """Write a file with the same rows in each format."""
    path = tmp_path / request.param
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(CONTENTS[path.stem].encode("utf-8-sig")))
    else:
        write(path, CONTENTS[path.name])
    return path


def identified(path, **options):
    source = TextSource(path, **options)
    for _ in source.rows(identify=True):
        pass
    return source


def test_each_format_has_the_same_rows(file):
    """The file name sets the format. Blank lines at the end are ignored."""
    rows = list(TextSource(file).rows())
    assert [row.text for row in rows] == [row["text"] for row in ROWS]
    assert [row.fields for row in rows] == ROWS
    assert [row.number for row in rows] == [1, 2, 3]


def test_the_digest_is_of_the_whole_file(file):
    """It is computed while the rows are read, also of compressed files and of Parquet."""
    source = identified(file)
    assert source.identity()["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()


REPEATED = '{"id": 1, "text": "one", "more": {}, "text": "two"}'


def test_a_repeated_key_is_a_problem_of_its_row(tmp_path):
    """The last of two texts would win without a word; the endpoint refuses them, too."""
    nested = '{"text": "one", "more": [{"a": 1, "a": 1}]}'
    file = write(tmp_path / "a.jsonl", f'{REPEATED}\n{nested}\n{{"text": "one"}}')
    assert [row.problem for row in TextSource(file).rows()] == [
        "is not JSON: the key 'text' is twice in an object, and is allowed once",
        "is not JSON: the key 'a' is twice in an object, and is allowed once",
        None,
    ]
    with pytest.raises(FileError, match="the key 'text' is twice in an object"):
        list(TextSource(write(tmp_path / "a.json", f"[{REPEATED}]")).rows())


def test_column_and_format_can_be_set(tmp_path):
    """The rows keep the other fields."""
    path = write(tmp_path / "data", '{"id": 7, "body": "hello"}\n"bare"\n')
    source = TextSource(path, kind="jsonl", column="body")
    assert [row.fields for row in source.rows()] == [{"id": 7, "body": "hello"}, {"body": "bare"}]


@pytest.mark.parametrize(
    "name", ["notes", "notes.foo", "notes.gz", "notes.foo.gz", "notes.parquet.gz", ".txt"]
)
def test_an_unknown_format_is_refused(tmp_path, name):
    """The message lists the known extensions and the flag."""
    path = write(tmp_path / name, "a\n")
    with pytest.raises(FileError, match=r"Known extensions are \.txt, .* --format text\|json\|"):
        TextSource(path)
    assert [row.text for row in TextSource(path, kind="text").rows()] == ["a"]


@pytest.mark.parametrize(
    ("name", "content", "place", "problem"),
    [
        ("a.txt", "a\n\nb\n", "line 2", "is blank"),
        ("a.txt", "\na\n", "line 1", "is blank"),
        ("a.jsonl", '"a"\n{"body": "b"}\n', "line 2", "has no 'text'; it has 'body'. Select"),
        ("a.jsonl", '"a"\n\n{"text": " "}\n', "row 2 (line 3)", "has no text in 'text': ' '"),
        ("a.jsonl", '{"text": 5}\n', "line 1", "has no text in 'text': int"),
        ("a.jsonl", '"a"\n{"text"\n', "line 2", "is not JSON: Expecting ':' delimiter"),
        ("a.jsonl", "[1]\n", "line 1", "is neither an object nor a string; found list"),
        ("a.jsonl", '"\\ud800"\n', "line 1", "has a lone surrogate, which is not valid Unicode"),
        ("a.json", '["a", {"text": null}]', "row 2", "has no text in 'text': null"),
        ("a.json", '["a", 3]', "row 2", "is neither an object nor a string; found int"),
        ("a.csv", 'text,n\n"a\nb",1\n,2\n', "row 2 (line 4)", "has no text in 'text': ''"),
        ("a.csv", "text,n\na,1,2\n", "row 1 (line 2)", "has 3 cells; the header has 2"),
        ("a.csv", "n,text\n1\n", "row 1 (line 2)", "has no text in 'text': null"),
        ("a.csv", "text\na\n\nb\n", "row 2 (line 3)", "has no text in 'text': ''"),
        ("a.txt", b"a\nb\xe9\n", "line 2", "is not UTF-8. Convert the file first"),
        ("a.jsonl", b'"a"\n"\xe9"\n', "line 2", "is not UTF-8"),
        ("a.csv", b"text,n\na,\xe9\n", "row 1 (line 2)", "is not UTF-8"),
    ],
)
def test_a_row_that_cannot_be_embedded_has_a_problem(tmp_path, name, content, place, problem):
    """It is still a row, so later rows keep their numbers."""
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (row,) = [row for row in TextSource(path).rows() if row.problem]
    assert (row.place, row.text) == (place, None)
    assert row.problem.startswith(problem)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"body\nx\n", r"has no column 'text'; it has 'body'\. Select the column"),
        ("a.csv", b"", "has no column 'text'; it has no columns"),
        ("a.csv", b"text,id,text\na,1,b\n", "has more than one column named 'text'"),
        ("a.csv", b'text\n"never closed\nb\n', "is not CSV: line 3: unexpected end of data"),
        ("a.txt", "a\n".encode("utf-16"), "is UTF-16, not UTF-8. Convert it first"),
        ("a.json", b'{"text": "a"}', "must hold a JSON array .*; found an object"),
        ("a.json", b'"a"\n"b"\n', "is not one JSON value: Extra data.*use --format jsonl"),
        ("a.json", b"[" * 100_000, "is not one JSON value"),
        ("a.txt.gz", gzip.compress(b"a\n" * 9000, mtime=0)[:-20], "is damaged"),
        ("a.parquet", b"PAR1 it is not", "is not valid Parquet"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path, name, content, message):
    """The message starts with the name of the file."""
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileError, match=message) as caught:
        list(TextSource(path).rows())
    assert str(caught.value).startswith(f"{path} ")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("header", ["Größe;text", "size;text"])
def test_the_command_of_an_error_converts_what_excel_writes(tmp_path, packed, header):
    """A shell runs it as it is printed."""
    path = tmp_path / ("it's {a} list.csv" + ".gz" * packed)
    content = f"{header}\n1;für 5 €\n".encode("cp1252")
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(FileError, match="is not UTF-8") as caught:
        TextSource(path).texts()
    command = str(caught.value).partition("writes: ")[2].removesuffix("NEW") + "new.csv"
    strict = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    subprocess.run(command, shell=True, check=True, cwd=tmp_path, env=strict)
    assert TextSource(tmp_path / "new.csv").texts() == ["für 5 €"]


def test_a_command_to_convert_does_not_name_the_copy_of_a_pipe(tmp_path):
    """The copy is gone when the user reads the error."""
    path = tmp_path / "copy"
    path.write_bytes("für".encode("cp1252"))
    (row,) = TextSource(path, kind="text", name="standard input").rows(identify=True)
    assert row.problem.endswith(": iconv -f CP1252 -t UTF-8 < FILE > NEW")


def test_a_missing_file_is_refused(tmp_path):
    """Folders are refused too."""
    with pytest.raises(FileError, match="none does not exist"):
        TextSource(tmp_path / "none")
    with pytest.raises(FileError, match="is not a file"):
        TextSource(tmp_path)


def test_the_identity_is_the_content(tmp_path):
    """The name and the time do not matter; the format and the column do."""
    path = write(tmp_path / "a.txt", "one\n")
    before = identified(path).identity()
    os.utime(path, (1, 1))
    assert identified(path).identity() == before
    assert identified(Path(shutil.copy(path, tmp_path / "b.txt"))).identity() == before
    assert identified(path, kind="jsonl").identity() != before
    assert identified(path, column="body").identity() != before
    write(path, "two\n")
    assert identified(path).identity() != before
