"""Prices of hosted embedding APIs, from `hosted.json`, which is edited by hand."""

import json
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

__all__ = ["FILE", "HostedModel", "hosted_models"]

FILE = Path(__file__).with_name("hosted.json")


@dataclass(frozen=True, slots=True)
class HostedModel:
    """One model of a hosted API."""

    provider: str
    model: str
    #: US dollars for a million tokens of input.
    usd_per_million_tokens: float
    #: The day the price was read.
    date: date
    source: str

    @property
    def name(self) -> str:
        """Provider and model."""
        return f"{self.provider} {self.model}"


@cache
def hosted_models(file: Path = FILE) -> tuple[HostedModel, ...]:
    """Return the models of the file, in its order."""
    return tuple(
        HostedModel(
            provider=entry["provider"],
            model=entry["model"],
            usd_per_million_tokens=float(entry["usd_per_million_tokens"]),
            date=date.fromisoformat(entry["date"]),
            source=entry["source"],
        )
        for entry in json.loads(file.read_text(encoding="utf-8"))
    )
