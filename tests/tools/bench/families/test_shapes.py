"""The measured shapes belong to models of the catalog."""

from model_compiler.source.catalog import CATALOG, find
from tools.bench.families.__main__ import REFERENCE
from tools.bench.families.shapes import FAMILIES, SHAPES


def test_each_shape_has_the_width_of_its_models() -> None:
    """And a model's limit is not above that of its shape."""
    entries = [entry for entry in CATALOG if entry.shape]
    assert {entry.shape for entry in entries} == set(SHAPES)
    for entry in entries:
        shape = SHAPES[entry.shape]
        assert entry.dimensions[0] == shape.dimensions
        assert (entry.max_tokens or 0) <= shape.max_tokens
        assert entry.family == shape.config.get("model_type", "static")


def test_the_families_are_models_of_the_catalog() -> None:
    """Each has the shape that is measured for it."""
    for name, shape in FAMILIES.items():
        entry = find(name)
        assert entry
        assert entry.shape == shape


def test_the_reference_is_the_model_of_dev() -> None:
    """The ratios are relative to it."""
    entry = find("all-MiniLM-L6-v2")
    assert entry
    assert entry.shape == REFERENCE
