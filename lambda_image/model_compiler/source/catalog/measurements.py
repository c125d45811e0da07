"""Measurements of the catalog's shapes, from `measured.json`.

`python -m tools.bench.families` makes the file. Speed and size depend on a model's shape and not on
its weights, so it measures one replica with random weights for each shape.
"""

import functools
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FILE", "Measurement", "Measurements", "measurements"]

FILE = Path(__file__).with_name("measured.json")


@dataclass(frozen=True, slots=True)
class Measurement:
    """One shape, compiled to int8. Times are ratios to the reference shape in the same run."""

    #: The size of the artifact.
    megabytes: float
    #: CPU time from the start of the process until it can answer.
    start: float
    #: CPU time of one text with 32 tokens.
    tokens_32: float
    #: CPU time of one text with 256 tokens.
    tokens_256: float


@dataclass(frozen=True, slots=True)
class Measurements:
    """The content of the file."""

    #: The shape with the ratios 1: that of the model in `environments/dev.toml`.
    reference: str
    #: Milliseconds of CPU time of the reference: `start`, `tokens_32` and `tokens_256`.
    milliseconds: Mapping[str, float]
    #: The machine, in words.
    machine: str
    shapes: Mapping[str, Measurement]


@functools.cache
def measurements() -> Measurements:
    """Return the measurements of all shapes."""
    value = json.loads(FILE.read_text(encoding="utf-8"))
    shapes = {name: Measurement(**numbers) for name, numbers in value.pop("shapes").items()}
    return Measurements(**value, shapes=shapes)
