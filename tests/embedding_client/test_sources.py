"""Files of texts."""

import json

import pyarrow
import pyarrow.parquet
import pytest

from embedding_client import FileError
from embedding_client.sources import Source

ROWS = [{"text": "one"}, {"text": "zwei, drei"}, {"text": 'four "five"'}]


def write(path, content):
    path.write_text(content, encoding="utf-8")
    return path


@pytest.fixture(params=["rows.jsonl", "rows.csv", "rows.tsv", "rows.parquet", "rows.txt"])
def file(request, tmp_path):
    """The same rows in each format."""
    path = tmp_path / request.param
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
        return path
    quoted = ['"zwei, drei"', '"four ""five"""']
    contents = {
        ".jsonl": "\n".join(json.dumps(row) for row in ROWS) + "\n\n",
        ".csv": "text\none\n" + "\n".join(quoted),
        ".tsv": "text\none\nzwei, drei\n" + quoted[1] + "\n",
        ".txt": 'one\r\n\nzwei, drei\n  \nfour "five"',
    }
    return write(path, contents[path.suffix])


def test_each_format_gives_the_same_rows(file):
    """Told by the file's name; blank lines are no rows."""
    source = Source(file)
    assert list(source.texts()) == [row["text"] for row in ROWS]
    assert list(source.records()) == ROWS
    assert source.count() == 3


def test_reading_may_begin_anywhere(file):
    """Rows before the start are passed over."""
    assert list(Source(file).texts(start=2)) == ['four "five"']


def test_other_columns_and_names(tmp_path):
    """The column is chosen, the format too; the other fields are kept."""
    path = write(tmp_path / "data", '{"id": 7, "body": "hello"}\n"bare"\n')
    source = Source(path, kind="jsonl", column="body")
    assert list(source.records()) == [{"id": 7, "body": "hello"}, {"body": "bare"}]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n{"body": "b"}\n', "row 2 has no 'text'; it has 'body'"),
        ("a.jsonl", '{"text": "a"}\n{"text": " "}\n', "row 2 has no text in 'text': ' '"),
        ("a.jsonl", '{"text": 5}\n', "row 1 has no text in 'text': 5"),
        ("a.jsonl", '{"text": "a"}\n{"text"\n', "line 2 is no JSON"),
        ("a.jsonl", "[1]\n", "line 1 is neither an object nor a string"),
        ("a.csv", "body\nx\n", "row 1 has no 'text'; it has 'body'. Choose with --column"),
    ],
)
def test_a_row_that_is_wrong_is_named(tmp_path, name, content, message):
    """File, row, what was found."""
    with pytest.raises(FileError, match=message):
        list(Source(write(tmp_path / name, content)).texts())


def test_what_is_not_utf8_is_told(tmp_path):
    """With the reason and the place."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"fine\n\xff\n")
    with pytest.raises(FileError, match=r"a\.txt is not UTF-8: invalid start byte"):
        list(Source(path).texts())


def test_a_file_that_is_not_there_is_told(tmp_path):
    """Before anything is sent."""
    with pytest.raises(FileError, match="none is no file"):
        Source(tmp_path / "none")


def test_a_file_that_changes_is_another(tmp_path):
    """A run does not go on with a file that was changed in between."""
    path = write(tmp_path / "a.txt", "one\n")
    before = Source(path).identity()
    write(path, "one\ntwo\n")
    assert Source(path).identity() != before
