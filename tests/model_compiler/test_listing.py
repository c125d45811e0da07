"""The list of known models, as a table and as JSON."""

import json

import pytest

from model_compiler import listing
from model_compiler.source.catalog import CATALOG, Measurement, Measurements, find


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one shape be measured."""
    numbers = Measurement(megabytes=24.6, start=1.0, tokens_32=1.0, tokens_256=0.014)
    values = Measurements("bert-6x384", {}, "", {"bert-6x384": numbers})
    monkeypatch.setattr(listing, "measurements", lambda: values)


def test_the_table_has_a_line_for_each_model(measured: None) -> None:
    """Each line has the facts of its model, and a dash for a value that was not measured."""
    lines = listing.as_table().partition("\n\n")[0].splitlines()
    assert [line.split()[0] for line in lines[1:]] == [entry.short_name for entry in CATALOG]
    (minilm,) = [line.split() for line in lines if line.startswith("all-MiniLM-L6-v2 ")]
    assert minilm[1:8] == ["English", "384", "256", "25", "1.0", "1.0", "0.014"]
    (small,) = [line for line in lines if line.startswith("e5-small-v2 ")]
    assert small.split()[1:8] == ["English", "384", "512", "–", "–", "–", "–"]
    assert "query, document" in small


def test_the_columns_are_aligned() -> None:
    """The license begins in the same column of each line."""
    table = listing.as_table().partition("\n\n")[0].splitlines()
    column = table[0].index("LICENSE")
    licenses = [line[column:].split()[0] for line in table[1:]]
    assert licenses == [entry.license.name for entry in CATALOG]


def test_the_json_has_every_prompt_and_commit(measured: None) -> None:
    """A value that is not known is null."""
    values = {value["name"]: value for value in json.loads(listing.as_json())}
    assert list(values) == [entry.name for entry in CATALOG]
    gemma = values["google/embeddinggemma-300m"]
    assert gemma["prompts"]["query"] == "task: search result | query: "
    assert gemma["dimensions"] == [768, 512, 256, 128]
    minilm = values["sentence-transformers/all-MiniLM-L6-v2"]
    assert minilm["measured"]["megabytes"] == 24.6
    assert minilm["pinned_by"] == "hashes"
    unverified = find("multi-qa-distilbert-cos-v1")
    assert unverified
    assert values[unverified.name]["revision"] is None
    assert values[unverified.name]["pinned_by"] == "unverified"
    assert values[unverified.name]["measured"] is None
