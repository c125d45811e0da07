"""Tables of the pages are whole: a row outside of one, or with other cells, is shown as text."""

import re

import pytest
from markdown_it import MarkdownIt

from .pages import PAGES, ROOT

# Of rich, which draws the demo.
_GFM = MarkdownIt("commonmark").enable("table")
_CELL = re.compile(r"(?<!\\)\|")


def faults(text: str) -> list[str]:
    """Return the faults of tables in a page in Markdown, each with its line."""
    # The skill begins with fields for agents.
    lines = re.sub(r"\A---\n.*?\n---\n\n", "", text, flags=re.DOTALL).split("\n")
    found = [token for token in _GFM.parse("\n".join(lines)) if token.map]
    code = {n for token in found if token.type == "fence" for n in range(*token.map)}
    heads = {n: t.map[0] for t in found if t.type == "table_open" for n in range(*t.map)}
    return [
        f"line {n + 1}: a row outside of a table"
        if n not in heads
        else f"line {n + 1}: a row with other cells than the head"
        for n, line in enumerate(lines)
        if n not in code and line.lstrip().startswith("|")
        if n not in heads or _cells(line) != _cells(lines[heads[n]])
    ]


def _cells(row: str) -> int:
    return len(_CELL.findall(row.strip().removesuffix("|")))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tables_of_a_page_are_whole(page):
    """By a parser of the repository's host."""
    assert faults(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("|a|b|\n|-|-|\n|1|2|\n\n|3|4|\n", ["line 5: a row outside of a table"]),
        ("|a|b|\n|-|-|\n|1|`2|3`|\n", ["line 3: a row with other cells than the head"]),
        ("```\n|a|\n```\n\n|a|\n|-|\n|`1\\|2`|\n", []),
    ],
)
def test_a_broken_row_is_found(text, found):
    """Code is left alone, and so is a bar in a cell."""
    assert faults(text) == found
