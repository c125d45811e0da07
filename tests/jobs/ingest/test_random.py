"""Random histories of a bucket: odd keys, lost and doubled events, runs that end anywhere."""

import json
import random
import threading

import pytest

from jobs.ingest.document_index import DocumentCounts
from jobs.load.index_client import StoredVector
from tests.fixtures.waiting import PATIENCE
from tests.jobs.conftest import ODD_KEYS
from tests.jobs.ingest.conftest import SETTINGS, TAGGED, KilledError, World, paragraphs


def change(world: World, rng: random.Random, names: list[str]) -> list[str]:
    """Put, change, tag, rename or delete a document; return the keys that events are about."""
    name = rng.choice(names)
    present = f"documents/docs/{name}.md" in world.s3.objects
    kind = rng.choice(["put", "edit", "tag", "rename", "delete"])
    if not present or kind == "put":
        parts = paragraphs(rng, rng.randint(1, 4))
        world.put(f"{name}.md", f"# Title {name}\n\n" + "\n\n".join(parts))
        return [f"{name}.md"]
    text = world.s3.objects[f"documents/docs/{name}.md"].decode(errors="replace")
    if kind == "tag":
        world.tag(f"{name}.md", year=str(rng.randrange(3)))
        return [f"{name}.md"]
    if kind == "edit":
        # Sometimes a document that cannot be read.
        broken = b"\xff\xfe\xff" if rng.random() < 0.1 else f"{text}\n\n{paragraphs(rng, 1)[0]}"
        world.put(f"{name}.md", broken)
        return [f"{name}.md"]
    world.delete(f"{name}.md")
    if kind == "delete":
        return [f"{name}.md"]
    other = rng.choice(names)
    world.put(f"{other}.md", text)
    return [f"{name}.md", f"{other}.md"]


def deliver(world: World, rng: random.Random, events: list[str]) -> None:
    """Deliver some messages as SQS may: again, in any order, to a function that may end."""
    rng.shuffle(events)
    batch = [events.pop() for _ in range(min(len(events), rng.randint(1, 4)))]
    world.writes_left = rng.randint(0, 5) if rng.random() < 0.3 else None
    try:
        failed = world.handle(*map(world.event, batch))
    except KilledError:
        events += batch
        # A message is given again after 15 minutes.
        world.clock[0] += 900
    else:
        events += [batch[int(number)] for number in failed]
        if rng.random() < 0.3:
            events += batch
    finally:
        world.writes_left = None


def run(world: World, seed: int, *, documents: int, steps: int) -> None:
    rng = random.Random(seed)
    names = [f"{ODD_KEYS[number % len(ODD_KEYS)]}{number}" for number in range(documents)]
    events: list[str] = []
    for _ in range(steps):
        events += [key for key in change(world, rng, names) if rng.random() > 0.2]
        while events and rng.random() < 0.5:
            deliver(world, rng, events)
    while events:
        deliver(world, rng, events)
    world.clock[0] += 900
    assert not world.reconcile()["busy"]
    assert world.found() == world.expected()
    again = world.reconcile()
    assert (again["changed"], again["embedded"], again["deleted"]) == (0, 0, 0)


@pytest.mark.parametrize(
    ("seed", "ingest_settings"), [(seed, (SETTINGS, TAGGED)[seed % 2]) for seed in range(6)]
)
def test_a_reconciliation_makes_the_index_the_chunks_of_the_bucket(world, seed):
    """Whatever happened to events and runs, the index then has these chunks and no others."""
    run(world, seed, documents=8, steps=40)


@pytest.mark.slow
def test_thousands_of_documents_are_put_changed_renamed_and_deleted_at_random(world, monkeypatch):
    """As above; requests to the index become calls of it, which take half of the time."""
    client = world.documents.index

    def put(vectors: list[bytes]) -> None:
        world.index.put([json.loads(vector) for vector in vectors])

    def delete(keys: list[str]) -> None:
        for key in keys:
            world.index.vectors.pop(key, None)

    def read(keys: list[str]) -> list[StoredVector]:
        there = world.index.vectors
        return [StoredVector(key, *there[key]) for key in keys if key in there]

    monkeypatch.setattr(client, "read", read)
    monkeypatch.setattr(client, "put", world.counted(put))
    monkeypatch.setattr(client, "delete", world.counted(delete))
    run(world, 7, documents=2_500, steps=3_100)


def test_a_step_compares_documents_at_the_same_time(world, monkeypatch):
    """It waits for S3 only: here, each comparison waits until eight have begun."""
    for number in range(8):
        world.put(f"{number}.md", "words")
    world.reconcile()
    barrier, real = threading.Barrier(8), world.documents.unchanged

    def together(key: str) -> DocumentCounts | None:
        barrier.wait(PATIENCE)
        return real(key)

    monkeypatch.setattr(world.documents, "unchanged", together)
    assert world.reconcile()["documents"] == 8


@pytest.mark.parametrize("seed", range(4))
def test_nothing_of_a_deleted_document_is_left_after_its_event(world, seed):
    """A run that ends anywhere, and late events of earlier writes, leave nothing of it."""
    rng = random.Random(seed)
    world.put("a.md", "\n\n".join(paragraphs(rng, 6)))
    world.add("kept.md", "kept words")
    for ends in range(8):
        world.put("a.md", "\n\n".join(paragraphs(rng, 6)))
        world.writes_left = ends
        try:
            world.handle(world.event("a.md"))
        except KilledError:
            world.clock[0] += 900
        world.writes_left = None
        world.delete("a.md")
        assert world.handle(world.event("a.md")) == []
        assert list(world.found().values()) == ["kept words"]
        assert world.handle(world.event("a.md"), world.event("a.md")) == []
        assert list(world.found().values()) == ["kept words"]
