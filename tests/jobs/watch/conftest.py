"""An index of the pages of this repository's documentation, and the watch over it."""

import json
import random
import zlib
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from embedder.core.engine import Engine
from jobs.load import index_client
from jobs.watch.run import WatchSettings, WatchSteps
from tests.embedder.small_model import WordTokenizer, manifest_of
from tests.jobs.ingest.conftest import SOURCE, World, ingest_settings, world

__all__ = ["ingest_settings", "world"]

DOCS = Path(__file__).parents[3] / "docs"
DAY = 86_400.0


class WordSession:
    """A session whose vectors are near if texts have words in common."""

    def __init__(self) -> None:
        words = np.random.default_rng(0).standard_normal((1000, 64))
        words[:3] = 0.0  # padding and special tokens
        self._words = words.astype(np.float32)

    def run(
        self, input_ids: npt.NDArray[np.int64], attention_mask: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.float32]:
        """Return the sums of the words' vectors, of length 1."""
        sums = (self._words[input_ids] * attention_mask[:, :, None]).sum(axis=1)
        rows: npt.NDArray[np.float32] = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return rows


@pytest.fixture
def engine() -> Engine:
    return Engine(manifest_of(max_tokens=34, dimensions=(64, 32)), WordTokenizer(), WordSession())


@dataclass
class Watched:
    """The documents and their index, and runs of the watch."""

    world: World
    questions: list[dict[str, str]] = field(default_factory=list)

    def put(self, key: str, text: str, *, indexed: bool = True) -> None:
        """Write a document at the time of the clock, and index it."""
        self.world.put(key, text, year=str(2000 + zlib.crc32(key.encode()) % 20))
        self.world.s3.modified[SOURCE + key] = formatdate(self.world.clock[0], usegmt=True)
        if indexed:
            self.index(key)

    def delete(self, key: str) -> None:
        """Delete a document, and index it."""
        self.world.delete(key)
        self.index(key)

    def index(self, key: str) -> None:
        """Bring a document of the index up to date."""
        # The clock may be ahead of the machine's, by which messages have a deadline.
        self.world.documents.update(key, deadline=self.world.clock[0])

    def ask(self, *questions: dict[str, str]) -> None:
        """Write the file with golden questions."""
        self.questions = list(questions)
        lines = [json.dumps(question) for question in questions]
        self.world.s3.objects["documents/_watch/questions.jsonl"] = "\n".join(lines).encode()

    def steps(self, seed: int = 0, *, sample: int = 1000, asked: bool = True) -> WatchSteps:
        """Return the steps of a run."""
        questions = "s3://documents/_watch/questions.jsonl" if asked else None
        settings = WatchSettings(sample=sample, questions=questions)
        engine, now = self.world.engine, lambda: self.world.clock[0]
        return WatchSteps(self.world.settings, settings, engine, now=now, seed=seed)

    def run(self, seed: int = 0, *, sample: int = 1000) -> dict[str, Any]:
        """Run the watch."""
        return self.steps(seed, sample=sample).run({"step": "watch"})

    def report(self) -> dict[str, Any]:
        """Return the newest report."""
        found = [path for path in self.world.s3.objects if "/watch/" in path]
        report: dict[str, Any] = json.loads(self.world.s3.objects[max(found)])
        return report


@pytest.fixture
def watched(world: World, monkeypatch: pytest.MonkeyPatch) -> Watched:
    # Sixteen threads may overrun the stand-in's queue of connections on a busy machine.
    monkeypatch.setattr(index_client, "_ATTEMPTS", 8)
    return Watched(world)


def sections() -> dict[str, str]:
    """Return the sections of the documentation's pages, as documents."""
    found = {}
    for page in sorted(DOCS.glob("*.md")):
        for number, section in enumerate(page.read_text().split("\n## ")):
            found[f"{page.stem}/{number:02d}.md"] = f"# {page.stem}\n\n## {section}"
    return found


def questions_of(world: World, rng: random.Random, count: int) -> list[dict[str, str]]:
    """Return questions: the first words of chunks, with their documents."""
    chosen = rng.sample(sorted(world.index.vectors), count)
    stored = [world.index.vectors[key].metadata for key in chosen]
    return [
        {"query": " ".join(each["text"].split()[:15]), "document": each["document"]}
        for each in stored
    ]


@pytest.fixture
def documentation(watched: Watched) -> Watched:
    for key, text in sections().items():
        watched.put(key, text)
    watched.ask(*questions_of(watched.world, random.Random(1), 30))
    watched.world.clock[0] += DAY
    return watched
