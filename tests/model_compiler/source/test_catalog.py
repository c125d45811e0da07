"""The catalog: names that are found, pins that can be pins, its list, and estimated times."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from itertools import groupby
from typing import Any

import pytest
from safetensors import safe_open

from model_compiler.errors import CompilerError
from model_compiler.files.config import ConfigFile
from model_compiler.graph import architectures
from model_compiler.source import catalog
from model_compiler.source.catalog import (
    BENCHMARKS,
    CATALOG,
    Measurement,
    as_json,
    as_table,
    find,
    measurements,
    recognize,
)
from model_compiler.source.find import is_repository_name
from tests.model_compiler.goldens.families import FAMILIES


@pytest.mark.parametrize("entry", CATALOG, ids=lambda entry: entry.name)
def test_an_entry_is_whole(entry):
    """Commits are commits, hashes hashes, dimensions in order, and facts for a choice exist."""
    assert is_repository_name(entry.name)
    assert entry.repositories
    for repository in entry.repositories:
        assert is_repository_name(repository.name)
        assert repository.revision is None or re.fullmatch("[0-9a-f]{40}", repository.revision)
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in entry.sha256.values())
    assert entry.family
    assert entry.languages
    assert entry.choose.endswith(".")
    assert bool(entry.dimensions) == (entry.task == "embed")
    assert list(entry.dimensions) == sorted(set(entry.dimensions), reverse=True)
    if entry.prompts and entry.default_prompt:
        assert entry.default_prompt in entry.prompts
    assert entry.license.url.startswith("https://")
    assert entry.quality.keys() <= BENCHMARKS.keys()
    assert all(0 < points < 100 for points in entry.quality.values())
    for golden in entry.golden:
        assert len(golden.head) >= 5
        assert 0 < golden.tolerance <= 1e-3


def test_names_are_found_in_full_in_short_and_in_any_case():
    """The organization may be omitted; two models never share a name."""
    for entry in CATALOG:
        for name in (entry.name, entry.short_name, entry.name.upper()):
            assert find(name) is entry
    assert len(CATALOG) >= 60
    assert find("MiniLM") is None


@pytest.mark.parametrize("family", sorted({entry.family for entry in CATALOG} - {"static"}))
def test_a_family_is_one_that_the_compiler_knows(tmp_path, family):
    """A configuration of this family fails for the keys that are missing, not for the family."""
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": family}))
    with pytest.raises(CompilerError) as failed:
        architectures.parse(ConfigFile(path))
    assert "is missing" in str(failed.value)


def test_models_without_prompts_of_their_own_are_not_recognized_by_their_family():
    """A family alone identifies no model."""
    assert recognize(family="bert", source="0" * 12, prompts={}) is None
    gemma = find("embeddinggemma-300m")
    assert gemma
    assert recognize(family="gemma3_text", source="0" * 12, prompts=gemma.own_prompts) is gemma


def test_measurements_are_of_shapes_that_a_model_has():
    """Each is one of the catalog's or EuroBERT's, and the reference has the ratios 1."""
    measured = measurements()
    assert measured.shapes.keys() <= {entry.shape for entry in CATALOG} | {"eurobert-12x768"}
    reference = measured.shapes[measured.reference]
    assert (reference.start, reference.tokens_32, reference.tokens_256) == (1, 1, 1)
    assert measured.milliseconds.keys() == {"start", "tokens_32", "tokens_256"}
    assert measured.machine


def test_a_benchmark_has_a_source_and_a_day():
    """Each number of quality belongs to one of them."""
    for facts in BENCHMARKS.values():
        assert facts.source.startswith("https://")
        assert date.fromisoformat(facts.date) <= datetime.now(UTC).date()


def test_models_of_one_use_stand_together():
    """The tables have a heading for each group."""
    groups = [group for group, _ in groupby(entry.group for entry in CATALOG)]
    assert len(groups) == len(set(groups))


def test_the_memory_that_fits_is_a_quarter_above_the_peak():
    """In steps of 128 MB, and never less for a longer text."""
    peaks = {512: 102, 8192: 103}
    measured = Measurement(megabytes=1, memory=peaks, tokens_32=1, tokens_256=1, start=1)
    assert measured.memory_mb == {512: 128, 8192: 256}
    for shape in measurements().shapes.values():
        memory = list(shape.memory_mb.values())
        assert memory == sorted(memory)


def test_the_table_has_a_line_for_each_model():
    """Each line says how its model is pinned, and ends with when to choose it."""
    lines = as_table().partition("\n\n")[0].splitlines()[1:]
    for entry, line in zip(CATALOG, lines, strict=True):
        assert line.split()[:2] == [entry.short_name, entry.pin]
        assert line.endswith(f"  {entry.choose}")


def test_the_json_has_every_fact():
    """A value that is not known is null."""
    values = {value["name"]: value for value in json.loads(as_json())}
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


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"albert"}))
def test_the_matrices_of_each_familys_feed_forward_are_counted(tmp_path, monkeypatch, name):
    """Two, or three with a gate; ALBERT's layers share theirs, so its weights are no count."""
    counted: list[tuple[Mapping[str, Any], bool]] = []
    gated = catalog._is_gated

    def recorded(config: Mapping[str, Any]) -> bool:
        counted.append((config, gated(config)))
        return counted[-1][1]

    monkeypatch.setattr(catalog, "_is_gated", recorded)
    folder = FAMILIES[name].write(tmp_path / "model")
    assert catalog.estimate(json.loads((folder / "config.json").read_text("utf-8")))
    ((config, has_gate),) = counted
    layers, width, _, inner = (
        catalog._first(config, keys)
        for keys in (catalog._LAYERS, catalog._WIDTH, catalog._HEADS, catalog._INNER)
    )
    with safe_open(folder / "model.safetensors", "numpy") as weights:
        shapes = [
            weights.get_slice(key).get_shape()
            for key in weights.keys()  # noqa: SIM118 - it is no mapping
            if not any(word in key for word in ("attn", "attention", "embed", "tower"))
        ]
    elements = sum(
        shape[0] * shape[1]
        for shape in shapes
        if len(shape) == 2 and width in shape and {inner, 2 * inner} & {*shape}
    )
    assert elements == (2 + has_gate) * layers * width * inner
