"""Tags of objects as metadata: precedence, events, what a change costs, what is refused."""

import pytest

from jobs.errors import BatchError
from tests.jobs.ingest.conftest import SETTINGS, TAGGED


@pytest.fixture
def ingest_settings():
    return TAGGED


def metadata(world, *names):
    """Return the values of the only vector."""
    (stored,) = world.index.vectors.values()
    return [stored.metadata.get(name) for name in names]


def test_an_event_of_tags_changes_metadata_and_embeds_nothing(world, monkeypatch):
    """Twice and late as well; the metadata is that of the tags as they are now."""
    world.put("a.md", "words")
    world.handle(world.tag("a.md", year="2020", team="x"))
    assert metadata(world, "year", "team") == [2020, None]
    monkeypatch.delattr(type(world.engine), "embed_request")
    late = world.tag("a.md", year="2021")
    event = world.tag("a.md", Year="2022", lang="de")
    assert world.handle(event, event, late) == []
    assert metadata(world, "year", "lang") == [2022, "de"]
    assert world.handle(world.tag("a.md")) == []
    assert metadata(world, "year", "lang") == [None, None]


def test_the_nearest_to_the_text_counts(world):
    """Front matter counts before user metadata, and that before tags."""
    world.put("a.md", "---\ntags: front\n---\nwords", tags="user", lang="user")
    world.handle(world.tag("a.md", tags="tag", lang="tag", year="2020"))
    assert metadata(world, "tags", "lang", "year") == ["front", "user", 2020]


def test_a_comparison_finds_tags_after_a_lost_event(world):
    """It repairs metadata; a tag that is no metadata key changes nothing."""
    world.put("a.md", "words")
    world.reconcile()
    world.tag("a.md", lang="de")
    repaired = world.reconcile()
    assert (repaired["changed"], repaired["embedded"], repaired["deleted"]) == (1, 0, 1)
    assert metadata(world, "lang") == ["de"]
    world.tag("a.md", lang="de", scan="clean")
    assert world.reconcile()["changed"] == 0


def test_tags_that_change_while_a_document_is_read_are_read_again(world, monkeypatch):
    """The chunks are never those of earlier tags."""
    world.put("a.md", "words")
    real = world.documents._chunks

    def overtaken(*given):
        monkeypatch.setattr(world.documents, "_chunks", real)
        found = real(*given)
        world.tag("a.md", lang="de")
        return found

    monkeypatch.setattr(world.documents, "_chunks", overtaken)
    assert world.handle(world.event("a.md")) == []
    assert metadata(world, "lang") == ["de"]


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        ({"Lang": "de", "lang": "en"}, "differ by more than their case; found Lang, lang"),
        ({"tags": "\u4e16" * 256, "lang": "\u4e16" * 256, "year": "\u4e16" * 256}, "of filterable"),
    ],
)
def test_tags_that_the_index_cannot_have_are_refused_by_name(world, tags, reason):
    """The dead letter names key and reason; other tags bring the document back."""
    world.put("a.md", "words")
    assert world.handle(world.tag("a.md", **tags)) == []
    assert not world.index.vectors
    (letter,) = world.letters
    assert letter["key"] == "a.md"
    assert reason in letter["reason"]
    world.handle(world.tag("a.md", lang="fr"))
    assert metadata(world, "lang") == ["fr"]


def test_a_refused_request_for_tags_is_not_an_object_without_tags(world, monkeypatch):
    """The message fails, and the index keeps what it has."""
    world.put("a.md", "words")
    world.handle(world.tag("a.md", lang="de"))
    world.s3.tags_allowed = False
    assert world.handle(world.event("a.md")) == ["0"]
    assert metadata(world, "lang") == ["de"]
    with pytest.raises(BatchError, match=r"tags of s3://documents/docs/a.md cannot be read"):
        world.documents.unchanged("a.md")


@pytest.mark.parametrize("ingest_settings", [SETTINGS])
def test_without_the_setting_no_tag_is_read(world):
    """A role that may not read them is enough, and there is no metadata."""
    world.s3.tags_allowed = False
    world.put("a.md", "words")
    assert world.handle(world.tag("a.md", lang="de")) == []
    world.reconcile()
    assert metadata(world, "lang") == [None]
