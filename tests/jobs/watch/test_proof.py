"""What a run of the watch finds, and that it finds nothing where nothing is wrong."""

import random

import numpy as np
import pytest

from embedding_kit.settings.ingest import THRESHOLDS
from jobs.watch.run import WatchSteps
from tests.fixtures.s3_vectors.indexes import Stored
from tests.jobs.ingest.conftest import paragraphs
from tests.jobs.watch.conftest import DAY, sections

pytestmark = pytest.mark.slow
SEEDS = range(6)


def fired(result):
    """Return the metrics whose alarms CloudWatch would raise after a run."""
    low = {name: THRESHOLDS[name] for name in ("Recall", "GoldenFound")}
    high = {name: THRESHOLDS[name] for name in ("WrongVectors", "OldestChange")}
    values = {name: result[key] for name, (_, key) in WatchSteps.metrics.items()}
    return {name for name in low if values[name] is not None and values[name] < low[name]} | {
        name for name in high if values[name] > high[name]
    }


def drop(watched, rng):
    """Delete 5% of the vectors."""
    vectors = watched.world.index.vectors
    for key in rng.sample(sorted(vectors), len(vectors) // 20):
        del vectors[key]


def replace(watched, rng):
    """Give 1% of the vectors the numbers that another model would give them."""
    vectors = watched.world.index.vectors
    for key in rng.sample(sorted(vectors), len(vectors) // 100):
        numbers = np.random.default_rng(rng.randrange(1 << 30)).standard_normal(64, np.float32)
        numbers /= np.linalg.norm(numbers)
        vectors[key] = Stored(numbers, vectors[key].metadata)


def shuffle(watched, rng):
    """Exchange the values of a metadata field among 1% of the vectors."""
    vectors = watched.world.index.vectors
    chosen = rng.sample(sorted(vectors), len(vectors) // 100)
    years = [vectors[key].metadata["year"] for key in chosen]
    for key, year in zip(chosen, [*years[1:], years[0]], strict=True):
        vectors[key] = Stored(vectors[key].numbers, {**vectors[key].metadata, "year": year})


@pytest.mark.parametrize(
    ("mutate", "metric"), [(drop, "missing"), (replace, "foreign"), (shuffle, "wrong_metadata")]
)
def test_what_is_wrong_with_the_index_is_found_in_one_run(documentation, mutate, metric):
    """By each of the seeds, which choose what is wrong and what is sampled."""
    good = dict(documentation.world.index.vectors)
    for seed in SEEDS:
        mutate(documentation, random.Random(seed))
        result = documentation.run(seed)
        assert result[metric] > 0, seed
        assert "WrongVectors" in fired(result), seed
        documentation.world.index.vectors = dict(good)
    assert fired(documentation.run()) == set()


def test_frozen_updates_are_found_in_one_run(documentation):
    """Some documents of a day are new or changed, and no run has indexed them."""
    world = documentation.world
    good = dict(world.s3.objects), dict(world.s3.modified)
    for seed in SEEDS:
        rng = random.Random(seed)
        for key in rng.sample(sorted(sections()), 2):
            documentation.put(key, "\n\n".join(paragraphs(rng, 2)), indexed=False)
        documentation.put("new.md", "new words", indexed=False)
        world.clock[0] += 2 * 3600
        result = documentation.run(seed)
        assert (result["changed"], result["oldest_change"]) == (3, 7200), seed
        assert fired(result) == {"OldestChange"}, seed
        world.clock[0] -= 2 * 3600
        world.s3.objects, world.s3.modified = dict(good[0]), dict(good[1])
    assert fired(documentation.run()) == set()


def test_a_hundred_clean_runs_raise_no_alarm(documentation):
    """Documents are put, changed and deleted between them, as their users do."""
    keys = sorted(sections())
    asked = {question["document"] for question in documentation.questions}
    others = [key for key in keys if key not in asked]
    for seed in range(100):
        rng = random.Random(seed)
        for key in rng.sample(others, 3):
            documentation.put(key, "\n\n".join(paragraphs(rng, rng.randint(1, 6))))
        documentation.put(f"new/{seed}.md", "\n\n".join(paragraphs(rng, 3)))
        documentation.delete(rng.choice(others))
        documentation.world.clock[0] += DAY
        assert fired(documentation.run(seed)) == set(), seed
