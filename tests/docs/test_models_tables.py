"""The tables of the known models on the page of the models."""

import sys
from pathlib import Path

from model_compiler.source.catalog import BENCHMARKS, CATALOG

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "docs"))

import models_tables


def rows() -> dict[str, list[str]]:
    """Return the cells of each model by its short name."""
    lines = [line for line in models_tables.models_table().splitlines() if line[:2] == "|["]
    cells = [line.strip("|").split("|") for line in lines]
    return {row[0].partition("]")[0][1:]: row for row in cells}


def test_every_model_has_a_row_with_its_facts() -> None:
    """A range has the full and the smallest dimensions; a missing fact is a dash."""
    found = rows()
    assert list(found) == [entry.short_name for entry in CATALOG]
    minilm = found["all-MiniLM-L6-v2"]
    assert minilm[1:5] == ["English", "384", "256", "25"]
    assert minilm[6:8] == ["1.0", "1.0"]
    assert minilm[9:] == ["–", "apache-2.0"]
    assert found["nomic-embed-text-v1.5"][2:4] == ["768–64", "8,192"]
    assert found["embeddinggemma-300m-ONNX"][4:10] == list("––––––")
    assert found["granite-embedding-small-english-r2"][6].startswith("~")


def test_the_table_names_the_source_and_the_date_of_each_quality() -> None:
    """And the machine of the times."""
    table = models_tables.models_table()
    for key in ("retrieval", "multilingual"):
        facts = BENCHMARKS[key]
        assert f"{facts.title}, {facts.about}; {facts.source}, {facts.date}." in table
    assert "all-MiniLM-L6-v2 took 4.2 ms for 32 tokens and 23.6 ms for 256" in table


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
