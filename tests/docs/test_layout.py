"""What a page says is shown: whole tables, paragraphs that end, a sentence before each example."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import pytest
from markdown_it import MarkdownIt

from .pages import PAGES, ROOT

# Of rich, which draws the demo.
_GFM = MarkdownIt("commonmark").enable("table")
_BLOCKS = {
    "fence": "code",
    "code_block": "code",
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "table_open": "table",
}
#: A colon announces what follows, a bar or a bracket ends a line of links or of attributes.
_SENTENCE = re.compile(r"[.:?!)\]>`*·][\s\"*)]*$")
_CELL = re.compile(r"(?<!\\)\|")


class _Block(NamedTuple):
    kind: str
    first: int
    end: int
    level: int


def faults(text: str) -> list[str]:
    """Return what a reader of a page in Markdown does not see, or sees cut off, by its line."""
    # The skill begins with fields for agents.
    lines = re.sub(r"\A---\n.*?\n---\n\n", "", text, flags=re.DOTALL).split("\n")
    blocks = [
        _Block(_BLOCKS.get(one.type, "other"), one.map[0], one.map[1], one.level)
        for one in _GFM.parse("\n".join(lines))
        if one.map and (one.type in _BLOCKS or one.level == 0)
    ]
    found = sorted([*_of_lines(lines, blocks), *_of_blocks(lines, blocks)])
    return [f"line {number + 1}: {fault}" for number, fault in found]


def _of_lines(lines: list[str], blocks: list[_Block]) -> Iterator[tuple[int, str]]:
    """Yield the number of a line and its fault: rows of tables, and white space."""
    code = {n for one in blocks if one.kind == "code" for n in range(one.first, one.end)}
    tables = [one for one in blocks if one.kind == "table"]
    rows = {n: one.first for one in tables for n in range(one.first, one.end)}
    for one in tables:
        if one.end - one.first < 3:
            yield one.first, "a table without rows"
    for number, line in enumerate(lines):
        if number in code:
            continue
        bar = line.lstrip().startswith("|")
        if bar and number not in rows:
            yield number, "a row outside of a table"
        if bar and number in rows and _cells(line) != _cells(lines[rows[number]]):
            yield number, "a row with other cells than the head"
        if (
            bar
            and "port" not in line
            and re.search(r"\| \d{4,}(\.\d+)?( \([\d.]+\))? (?=\|)", line)
        ):
            yield number, "a number without a comma"
        if not bar and re.search(r"\S  +\S", line):
            yield number, "two spaces"
        if line != line.rstrip():
            yield number, "a space at the end"
        if number and not line and not lines[number - 1] and number + 1 < len(lines):
            yield number, "two blank lines"


def _of_blocks(lines: list[str], blocks: list[_Block]) -> Iterator[tuple[int, str]]:
    """Yield the number of a line and its fault: paragraphs and headings outside of lists."""
    top = [one for one in blocks if one.level == 0 and not lines[one.first].startswith("<!--")]
    for one, following in pairwise([*top, _Block("end", 0, 0, 0)]):
        text = "\n".join(lines[one.first : one.end]).strip()
        if one.kind == "paragraph" and not _SENTENCE.search(text) and not text.startswith(":::"):
            yield one.end - 1, "a paragraph without an end"
        if one.kind == "paragraph" and text.endswith(":") and following.kind in {"end", "heading"}:
            yield one.end - 1, "a colon that announces nothing"
        if one.kind == "heading" and following.kind == "end":
            yield one.first, "a heading without text"
        if one is top[0] and one.kind == "heading" and following.kind in {"table", "code"}:
            yield one.first, "no introduction"


def _cells(row: str) -> int:
    return len(_CELL.findall(row.strip().removesuffix("|")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_is_whole(page):
    """By a parser of the repository's host: all rows of its tables, all ends of its paragraphs."""
    assert faults(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("# A\n\nB.\n\n|a|b|\n|-|-|\n\n|1|2|\n", "line 5: a table without rows"),
        ("# A\n\nB.\n\n|a|b|\n|-|-|\n|1|2|\n\n|3|4|\n", "line 9: a row outside of a table"),
        ("# A\n\nB.\n\n|a|b|\n|-|-|\n|1|`2|3`|\n", "line 7: a row with other cells than the head"),
        ("# A\n\nIt ends in the\n\n## B\n\nC.\n", "line 3: a paragraph without an end"),
        ("# A\n\nIt has these:\n\n## B\n\nC.\n", "line 3: a colon that announces nothing"),
        ("# A\n\n|a|\n|-|\n|1|\n", "line 1: no introduction"),
        ("# A\n\nB.\n\n## C\n", "line 5: a heading without text"),
        ("# A\n\nB.\n\n\nC.\n", "line 5: two blank lines"),
        ("# A\n\nB.  C.\n", "line 3: two spaces"),
        ("# A\n\nB.\n\n|a|\n|-|\n| 1000 (0.3) |\n", "line 7: a number without a comma"),
    ],
)
def test_what_is_cut_off_is_found(text, fault):
    """Each fault has its line; code is left alone."""
    assert fault in faults(text)
    assert faults("# A\n\nB:\n\n```\n|a  b\n\n\nc \n```\n\n|a|\n|-|\n|`1\\|2`|\n") == []
