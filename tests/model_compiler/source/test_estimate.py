"""The times of a model that was not measured, from its sizes."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from safetensors import safe_open

from model_compiler.source.catalog import estimate
from tests.model_compiler.goldens.families import FAMILIES


@pytest.mark.parametrize("name", sorted(FAMILIES.keys() - {"albert"}))
def test_the_matrices_of_each_familys_feed_forward_are_counted(tmp_path, monkeypatch, name):
    """Two, or three with a gate; ALBERT's layers share theirs, so its weights are no count."""
    counted: list[tuple[Mapping[str, Any], bool]] = []
    gated = estimate._is_gated

    def recorded(config: Mapping[str, Any]) -> bool:
        counted.append((config, gated(config)))
        return counted[-1][1]

    monkeypatch.setattr(estimate, "_is_gated", recorded)
    folder = FAMILIES[name].write(tmp_path / "model")
    assert estimate.estimate(json.loads((folder / "config.json").read_text("utf-8")))
    ((config, has_gate),) = counted
    layers, width, _, inner = (
        estimate._first(config, keys)
        for keys in (estimate._LAYERS, estimate._WIDTH, estimate._HEADS, estimate._INNER)
    )
    with safe_open(folder / "model.safetensors", "numpy") as weights:
        shapes = [
            weights.get_slice(key).get_shape()
            for key in weights.keys()  # noqa: SIM118 - it is no mapping
            if not any(part in key for part in ("attn", "attention", "embed", "tower"))
        ]
    elements = sum(
        shape[0] * shape[1]
        for shape in shapes
        if len(shape) == 2 and width in shape and {inner, 2 * inner} & {*shape}
    )
    assert elements == (2 + has_gate) * layers * width * inner
