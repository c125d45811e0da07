"""Rows of CSV and JSONL as programs write them: blocks, metadata and problems."""

import csv
import time

import pytest

from jobs.documents.document import RefusedDocumentError
from jobs.documents.reader import read_document


def rows(key, data, wanted=()):
    """Return the lines and texts of rows, and the problems."""
    document = read_document(key, data.encode(), {}, wanted=wanted)
    return [(block.section, block.text) for block in document.blocks], list(document.problems)


#: A file, the line and the text of each row, and the problems.
TABLES = {
    "zero and false": (
        "a.jsonl",
        '{"name": "pen", "price": 0, "sold": false, "note": null, "tags": [], "size": {"w": 0}}',
        [(1, 'name: pen\nprice: 0\nsold: false\nsize: {"w":0}')],
        [],
    ),
    "NaN, as Python writes it": ("a.ndjson", '{"a": NaN, "b": 1.5}', [(1, "b: 1.5")], []),
    "cells that are empty, and NA, which may be a name": (
        "a.csv",
        "a,b,c,d\nNA,nan,,0\n,, ,\n",
        [(2, "a: NA\nb: nan\nd: 0")],
        [],
    ),
    "rows that are broken": (
        "a.csv",
        'a,b\n1,2\n3,4,5\n6\n"7" x,8\n9,"10\n11,12,\n',
        [(2, "a: 1\nb: 2"), (4, "a: 6"), (7, "a: 11\nb: 12")],
        [
            "line 3 has 3 cells; the header has 2",
            "line 4 has 1 cell; the header has 2: the last ones are read as empty",
            "line 5 is not CSV: ',' expected after '\"'",
            "line 6 is not CSV: unexpected end of data",
        ],
    ),
    "a text that is none": (
        "a.jsonl",
        '{"text": "a"}\n{"text": 5}\n{"text": " ", "b": 1}\n{"text": null, "b": 2}\n["a"]\n{"a":\n',
        [(1, "a"), (3, "b: 1"), (4, "b: 2")],
        [
            "line 2 has no text in 'text': int",
            "line 5 is not an object; found list",
            "line 6 is not JSON: Expecting value: line 1 column 6 (char 5)",
        ],
    ),
    "lines in cells, and no end of the last line": (
        "a.csv",
        'a,b\r\n"x\r\n""y""",1\r\n\r\n2,3,4\r\n5,6',
        [(2, 'a: x\n"y"\nb: 1'), (6, "a: 5\nb: 6")],
        ["line 5 has 3 cells; the header has 2"],
    ),
    "blanks after commas": (
        "a.csv",
        '"Month", "1958", "a, b"\n"JAN",  340, "x, y"\n',
        [(2, "Month: JAN\n1958: 340\na, b: x, y")],
        [],
    ),
    "columns without a name": (
        "a.csv",
        '"",mpg,,\nMazda,21,x,y\n',
        [(2, "Mazda\nmpg: 21\nx\ny")],
        [],
    ),
    "R's names of rows": (
        "a.csv",
        "mpg\thp\nMazda RX4\t21\t110\nFiat 128\t32\tNA\n",
        [(2, "Mazda RX4\nmpg: 21\nhp: 110"), (3, "Fiat 128\nmpg: 32\nhp: NA")],
        [],
    ),
    "a separator at the end of rows": ("a.csv", "a,b\n1,2,\n", [(2, "a: 1\nb: 2")], []),
    "many broken rows": (
        "a.tsv",
        "a, b\nyes, 1\n" + "1\t2\n" * 3000 + "1\t2\t3\n",
        [(2, "a, b: yes, 1")],
        [
            "line 3 has 2 cells; the header has 1 (so do lines 4, 5, 6, 7, 8 and 2,994 more)",
            "line 3003 has 3 cells; the header has 1",
        ],
    ),
}


@pytest.mark.parametrize(("key", "data", "expected", "problems"), TABLES.values(), ids=TABLES)
def test_rows_are_read_and_what_is_broken_is_named(key, data, expected, problems):
    """One broken row costs no other one; lines are those of the file."""
    assert rows(key, data) == (expected, problems)


@pytest.mark.parametrize(
    ("key", "data", "problem"),
    [
        ("a.csv", "a,b", "^it has no text$"),
        ("a.csv", "a,a\n1,2", "it has more than one column named 'a'"),
        ("a.csv", "a,b\n1,2,3", "^line 2 has 3 cells; the header has 2$"),
        ("a.csv", '"a" b,c\n1,2', "^line 1 is not CSV: ',' expected after '\"'$"),
        ("a.csv", "a;b\n1;2;3;4", "it may be separated by ';'; a first line"),
        ("a.csv", "a,b\n" + 'x","y\n' * 50_000, "^line 5 is not CSV: unexpected end of data$"),
        ("a.jsonl", "[1]\n{", "^line 1 is not an object; found list$"),
    ],
)
def test_a_table_without_a_row_is_refused_by_its_first_problem(key, data, problem):
    """Also where each line begins a cell without an end: it is not read for each of them."""
    began = time.process_time()
    with pytest.raises(RefusedDocumentError, match=problem):
        rows(key, data)
    assert time.process_time() - began < 10


def test_cells_are_metadata_in_their_type():
    """Excel writes a comma in numbers where it separates cells by semicolons."""
    data = "sep=;\nname;price;year;day;sold\nPen;3,50;2024;1,2,3;true\n;;;;\n"
    wanted = ["price", "year", "day", "sold", "size"]
    document = read_document("a.csv", data.encode("utf-16"), {}, wanted=wanted)
    (block,) = document.blocks
    assert block.text == "name: Pen\nprice: 3,50\nyear: 2024\nday: 1,2,3\nsold: true"
    assert block.metadata == {"price": 3.5, "year": 2024, "day": "1,2,3", "sold": True}


def test_metadata_of_another_type_costs_its_row():
    """Filters compare text, numbers and booleans."""
    data = b'{"text": "a", "year": {"a": 1}}\n{"text": "b", "year": 0}\n'
    document = read_document("a.jsonl", data, {}, wanted=["year"])
    assert [(block.text, block.metadata) for block in document.blocks] == [("b", {"year": 0})]
    assert document.problems == ("line 1 has no text, number, boolean or list of these in 'year'",)


def test_a_long_cell_is_read_whatever_other_code_allows():
    """The limit is the process's; a higher one of other code stays."""
    try:
        csv.field_size_limit(1000)
        assert len(rows("a.csv", "text\n" + "x" * 200_000)[0][0][1]) == 200_000
        csv.field_size_limit(1 << 40)
        rows("a.csv", "text\nx")
        assert csv.field_size_limit() == 1 << 40
    finally:
        csv.field_size_limit(131_072)
