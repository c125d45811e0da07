"""The page about performance shows the numbers of docs/performance.json."""

import json
import re

import pytest

from .pages import ROOT

PAGE = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").partition("\n## ")[0]
RUN = json.loads((ROOT / "docs" / "performance.json").read_text(encoding="utf-8"))
COLUMNS = ["baseline", "kit", "export", "sentence-transformers", "fastembed"]
ONLY_IN_THE_FILE = {"init, elapsed", "peak memory of the start"}
ROWS = [row for row in RUN["rows"] if row["name"] not in ONLY_IN_THE_FILE]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["name"])
def test_a_row_of_the_table_has_the_numbers_of_the_run(row):
    """Each cell has a contender's value, and its ratio to the baseline."""
    (line,) = (
        line for line in PAGE.splitlines() if line.startswith(f"| {row['name']}, {row['unit']} |")
    )
    cells = [re.fullmatch(r" ([\d.]+)(?: \(([\d.]+)\))? ", cell) for cell in line.split("|")[2:7]]
    found = [(float(cell[1]), float(cell[2] or 1)) for cell in cells if cell]
    values = [row["values"][kind] for kind in COLUMNS]
    assert [value for value, _ in found] == values
    # The ratios were rounded after the division, and the values before it.
    ratios = [value / values[0] for value in values]
    assert [ratio for _, ratio in found] == pytest.approx(ratios, rel=0.02, abs=0.005)
