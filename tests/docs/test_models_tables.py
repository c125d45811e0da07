"""The tables of the known models on the page of the models."""

import sys
from pathlib import Path

import pytest

from model_compiler import listing
from model_compiler.source.catalog import CATALOG, Measurement, Measurements

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

import models_tables


def rows() -> dict[str, list[str]]:
    """Return the cells of each model by its short name."""
    lines = [line for line in models_tables.models_tables().splitlines() if line[:3] == "| ["]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].partition("]")[0][1:]: row for row in cells}


def test_every_model_has_a_row_with_its_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that was not measured is a dash; a language is in the title or in the row."""
    numbers = Measurement(megabytes=24.6, start=1.04, tokens_32=1.0, tokens_256=2.0)
    times = {"start": 120.4, "tokens_32": 4.26, "tokens_256": 30.0}
    measured = Measurements("bert-6x384", times, "a CPU, one thread", {"bert-6x384": numbers})
    for module in (listing, models_tables):
        monkeypatch.setattr(module, "measurements", lambda: measured)
    found = rows()
    assert list(found) == [entry.short_name for entry in CATALOG]
    assert found["all-MiniLM-L6-v2"][1:8] == [
        *("384", "256", "25", "1.0", "1.0", "2.0", "apache-2.0"),
    ]
    titles = [line for line in models_tables.models_tables().splitlines() if line[:2] == "##"]
    assert titles[:2] == ["## English", "## English, for search"]
    assert found["bge-m3"][1:9] == ["over 100", "1024", "8,192", *"––––", "mit"]
    assert "all-MiniLM-L6-v2 took 120 ms to start, 4.3 ms for 32 tokens and 30.0 ms for 256" in (
        models_tables.models_tables()
    )


def test_an_unverified_model_has_a_star() -> None:
    """Its commit is decided by the first download."""
    stars = {name for name, row in rows().items() if row[0].endswith(")*")}
    assert stars == {entry.short_name for entry in CATALOG if entry.pin == "unverified"}


def test_prompts_are_written_as_they_are() -> None:
    """A line break is an escape, and a bar does not end the cell."""
    table = models_tables.prompts_table()
    assert "e5-small-v2" in table
    assert "query: `query: `<br>document: `passage: `" in table
    assert "answer the query\\nQuery:`<br>document: no prompt |" in table
    assert "`title: none \\| text: `" in table
