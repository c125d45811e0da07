"""The list of known models, as a table and as JSON."""

import json

from model_compiler import listing
from model_compiler.source.catalog import CATALOG, find, measurements


def test_the_table_has_a_line_for_each_model():
    """Each line says how its model is pinned, and ends with when to choose it."""
    lines = listing.as_table().partition("\n\n")[0].splitlines()[1:]
    for entry, line in zip(CATALOG, lines, strict=True):
        assert line.split()[:2] == [entry.short_name, entry.pin]
        assert line.endswith(f"  {entry.choose}")


def test_the_json_has_every_fact():
    """A value that is not known is null."""
    values = {value["name"]: value for value in json.loads(listing.as_json())}
    assert list(values) == [entry.name for entry in CATALOG]
    gemma = values["google/embeddinggemma-300m"]
    assert gemma["prompts"]["query"] == "task: search result | query: "
    assert gemma["dimensions"] == [768, 512, 256, 128]
    minilm = values["sentence-transformers/all-MiniLM-L6-v2"]
    shape = measurements().shapes["bert-6x384"]
    assert minilm["megabytes"] == shape.megabytes
    assert minilm["memory_mb"] == {"512": shape.memory_mb[512]}
    assert minilm["pinned_by"] == "hashes"
    unverified = find("multi-qa-distilbert-cos-v1")
    assert unverified
    assert values[unverified.name]["revision"] is None
    assert values[unverified.name]["pinned_by"] == "unverified"
    unmeasured = values["onnx-community/embeddinggemma-300m-ONNX"]
    assert unmeasured["tokens_32"] is None
