"""One document in the index: what a change costs, waiting for other runs, refusals, no time."""

import contextlib
import json
import random
import statistics
import time
from dataclasses import replace

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from embedder.core.errors import EmbedderError
from jobs.documents import chunks
from jobs.documents.reader import read_document
from jobs.errors import BatchError, UnavailableError
from jobs.ingest import document_index
from jobs.ingest.run import entry, open_documents
from jobs.steps import UnexpectedError
from tests.jobs.conftest import ODD_KEYS
from tests.jobs.ingest.conftest import SETTINGS, Context, KilledError, chunks_of, paragraphs


def test_a_change_of_one_paragraph_embeds_the_chunks_near_it(world, engine):
    """Of 200 chunks and more, half of the changes embed one or two, nine of ten at most three."""
    rng = random.Random(3)
    parts = [
        f"## Part {n}\n\n" + "\n\n".join(paragraphs(rng, 4)) if n else paragraphs(rng, 1)[0]
        for n in range(90)
    ]
    world.add("a.md", "\n\n".join(parts))
    assert len(world.index.vectors) >= 200
    counts = []
    for _ in range(20):
        place = rng.randrange(1, len(parts))
        head, *body = parts[place].split("\n\n")
        body[rng.randrange(len(body))] = paragraphs(rng, 1)[0]
        parts[place] = "\n\n".join([head, *body])
        world.put("a.md", "\n\n".join(parts))
        counts.append(world.documents.update("a.md", deadline=2e9).embedded)
    assert world.found() == world.expected()
    assert min(counts) >= 1
    assert statistics.median(counts) <= 2
    assert sum(count <= 3 for count in counts) >= 18


def test_an_inserted_paragraph_embeds_no_later_section_again(world):
    """A chunk's key does not depend on its place."""
    sections = [f"# S{n}\n\nsection {n} has words" for n in range(20)]
    world.put("a.md", "\n\n".join(sections))
    assert world.documents.update("a.md", deadline=2e9).embedded == 20
    world.put("a.md", "\n\n".join(["# New\n\nnew words", *sections]))
    # The document's title is now another one: all chunks are written, with the vectors of before.
    vectors = {tuple(stored.numbers) for stored in world.index.vectors.values()}
    assert world.documents.update("a.md", deadline=2e9)[3:5] == (1, 20)
    assert world.found() == world.expected()
    assert vectors < {tuple(stored.numbers) for stored in world.index.vectors.values()}
    world.put("b.md", "---\ntitle: B\n---\n" + "\n\n".join(sections))
    world.documents.update("b.md", deadline=2e9)
    world.put("b.md", "---\ntitle: B\n---\n" + "\n\n".join(["# New\n\nnew words", *sections]))
    assert world.documents.update("b.md", deadline=2e9).embedded == 1


def test_equal_chunks_of_a_document_are_all_in_the_index(world):
    """A document may say the same twice."""
    world.add("a.jsonl", '{"text": "same"}\n' * 3)
    assert list(world.found().values()) == ["same"] * 3
    world.put("a.jsonl", '{"text": "same"}\n' * 2)
    assert world.documents.update("a.jsonl", deadline=2e9)[1:5] == (2, 1, 0, 1)


def test_metadata_of_the_document_and_its_rows_is_in_the_index(world):
    """User metadata, front matter and columns, each before the one before it."""
    world.put("a.md", "---\ntags: [x, 'y z']\nyear: 2024\n---\n# T\n\n## H\n\nwords", year="2020")
    world.put("b.csv", "text,year,lang\nrow one,2021,de\nrow two,,\n", lang="en")
    world.handle(world.event("a.md"), world.event("b.csv"))
    found = {stored.metadata["text"]: stored.metadata for stored in world.index.vectors.values()}
    assert found["words"] == {
        "text": "words",
        "title": "T",
        "headings": "T > H",
        "document": "a.md",
        "tags": ["x", "y z"],
        "year": 2024,
    }
    assert (found["row one"]["year"], found["row one"]["lang"]) == (2021, "de")
    assert "year" not in found["row two"]
    assert found["row two"]["lang"] == "en"


@pytest.mark.parametrize("ingest_settings", [SETTINGS, replace(SETTINGS, metadata=("tenant",))])
def test_the_first_folder_of_a_key_is_its_tenant(world):
    """A search may filter by it, also in a row that claims another one, wanted or not."""
    world.put("acme/2026/a.jsonl", '{"text": "words", "tenant": "other"}')
    world.put("b.md", "others")
    world.handle(world.event("acme/2026/a.jsonl"), world.event("b.md"))
    found = {stored.metadata["text"]: stored.metadata for stored in world.index.vectors.values()}
    assert found["words"]["tenant"] == "acme"
    assert "tenant" not in found["others"]


def test_a_document_that_cannot_be_read_leaves_the_index_and_is_reported(world):
    """Never a part of it is searched: not the chunks of its earlier content either."""
    world.add("a.md", "readable words")
    world.add("a.md", b"good words, then \xff")
    assert not world.index.vectors
    (letter,) = world.letters
    assert letter["key"] == "a.md"
    assert "byte 17 is not utf-8" in letter["reason"]
    world.handle(world.event("a.md"))
    assert len(world.letters) == 1
    world.add("a.md", "readable again")
    assert list(world.found().values()) == ["readable again"]


def test_what_is_left_out_of_a_document_is_reported_once(world, monkeypatch):
    """The document is in the index; each night counts it, and only a change reports it again."""
    problems = ["line 3 has no end"] * 30

    def read(*given, **keys):
        return read_document(*given, **keys)._replace(problems=tuple(problems))

    monkeypatch.setattr(chunks, "read_document", read)
    world.add("a.md", "readable words")
    assert list(world.found().values()) == ["readable words"]
    (letter,) = world.letters
    assert letter["key"] == "a.md"
    assert letter["reason"].startswith("it is in the index, but line 3 has no end; line 3")
    assert letter["reason"].endswith("no end; and 10 more")
    for _ in range(2):
        result = world.reconcile()
        assert (result["incomplete"], result["refused"], len(world.letters)) == (1, 0, 1)
    problems[:] = ["page 2 has no text"]
    world.add("a.md", "changed words")
    assert world.letters[1]["reason"] == "it is in the index, but page 2 has no text"
    problems.clear()
    world.add("a.md", "whole words")
    assert (world.reconcile()["incomplete"], len(world.letters)) == (0, 2)


@pytest.mark.parametrize(
    ("limit", "most", "problem"),
    [
        ("chunks._MAX_CHUNKS", 3, "it has more than 3 chunks"),
        ("document.MAX_BLOCKS", 3, "paragraphs or rows; up to 3 are allowed"),
        ("chunks._MAX_BYTES", 60, "it has 72 bytes; up to 60 are allowed"),
    ],
)
def test_a_document_over_a_limit_is_refused_as_a_whole(world, monkeypatch, limit, most, problem):
    """Its beginning alone would look like all of it; one at the limit is read."""
    monkeypatch.setattr(f"jobs.documents.{limit}", most)
    world.add("a.jsonl", '{"text": "row"}\n' * 3)
    world.add("b.jsonl", '{"text": "row"}\n' * 4 + " " * 8)
    assert len(world.index.vectors) == 3
    (letter,) = world.letters
    assert (letter["key"], problem in letter["reason"]) == ("b.jsonl", True)


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_run_waits_for_another_one_that_may_write(world, writes):
    """Until the other's time is over, the message fails and SQS gives it again."""
    world.put("a.md", "first words")
    world.writes_left = writes
    with contextlib.suppress(KilledError):
        world.handle(world.event("a.md"))
    world.writes_left = None
    # The third write is the last one, which ends the other's time.
    assert world.handle(world.event("a.md")) == ([] if writes == 3 else ["0"])
    world.clock[0] += 600
    assert world.handle(world.event("a.md")) == []
    assert list(world.found().values()) == ["first words"]


@pytest.mark.parametrize("place", ["_chunks", "_vectors"])
@pytest.mark.parametrize("earlier", [None, "earlier words"])
def test_a_run_that_another_one_overtakes_begins_anew(world, monkeypatch, place, earlier):
    """When it continues, another run has replaced its object or its list."""
    if earlier:
        world.add("a.md", earlier)
    world.put("a.md", "first words")
    real = getattr(world.documents, place)

    def overtaken(*given):
        monkeypatch.setattr(world.documents, place, real)
        found = real(*given)
        world.put("a.md", "second words")
        world.documents.update("a.md", deadline=2e9)
        return found

    monkeypatch.setattr(world.documents, place, overtaken)
    assert world.handle(world.event("a.md")) == []
    assert list(world.found().values()) == ["second words"]


def test_a_large_document_is_done_in_several_runs(world, monkeypatch):
    """A run that is out of time keeps its writes, and the next run continues from them."""
    monkeypatch.setattr(document_index, "_SLICE", 2)
    world.put("a.jsonl", "\n".join(f'{{"text": "row {n}"}}' for n in range(6)))
    real = world.documents.index.put

    def slow(vectors):
        real(vectors)
        world.clock[0] += 100

    monkeypatch.setattr(world.documents.index, "put", slow)
    with pytest.raises(UnavailableError, match="no time left"):
        world.documents.update("a.jsonl", deadline=world.clock[0] + 150)
    assert len(world.index.vectors) == 4
    assert world.documents.update("a.jsonl", deadline=2e9).embedded == 2
    assert world.found() == world.expected()


@pytest.mark.parametrize(
    "change", [{"chunk_tokens": 12}, {"overlap_tokens": 0}, {"metadata": ("year",)}]
)
def test_other_settings_make_each_unchanged_document_be_read_again(world, change):
    """Its chunks are then those of the new settings; with the same ones there is no work."""
    world.add("a.md", " ".join(f"w{number} and more." for number in range(40)), lang="de")
    made = [
        open_documents(settings, world.engine, send=print, now=lambda: world.clock[0])[0]._documents
        for settings in (SETTINGS, replace(SETTINGS, **change))
    ]
    assert [each.unchanged("a.md") is not None for each in made] == [True, False]
    assert made[1].update("a.md", deadline=2e9).changed == 1
    assert set(world.index.vectors) == set(chunks_of(made[1], "a.md"))


def test_another_format_embeds_the_same_texts_again(world, monkeypatch):
    """A vector of an equal chunk is not that of its passage now; no earlier one stays."""
    world.add("a.md", "# T\n\nsome words\n\n## H\n\nother words")
    earlier = set(world.index.vectors)
    for module in (chunks, document_index):
        monkeypatch.setattr(module, "FORMAT", 99)
    world.documents = open_documents(SETTINGS, world.engine, send=print)[0]._documents
    counts = world.documents.update("a.md", deadline=2e9)
    assert (counts.embedded, counts.deleted) == (2, 2)
    assert world.found() == world.expected()
    assert earlier.isdisjoint(world.index.vectors)


def test_others_wait_until_a_deletion_has_ended(world, monkeypatch):
    """After a slow write, the time that the list says is renewed before chunks are deleted."""
    world.add("a.md", "first words")
    world.put("a.md", "other words")
    index, until = world.documents.index, []
    put, delete = index.put, index.delete

    def slow(vectors):
        put(vectors)
        world.clock[0] += 300

    def deleted(keys):
        (path,) = (path for path in world.s3.objects if "/chunks/" in path)
        until.append(json.loads(world.s3.objects[path])["until"] - world.clock[0])
        delete(keys)

    monkeypatch.setattr(index, "put", slow)
    monkeypatch.setattr(index, "delete", deleted)
    world.documents.update("a.md", deadline=2e9)
    # A request with all its attempts takes up to 380 s.
    assert until[0] > 380


@pytest.mark.parametrize(("left", "failed"), [(400, ["0"]), (450, [])])
def test_no_work_begins_that_could_not_end(world, left, failed):
    """Near the end of the function the message fails, and SQS gives it again."""
    now = time.time()
    world.clock[0] = now
    world.put("a.md", "words")
    assert world.handle(world.event("a.md"), left=left) == failed


def test_a_comparison_leaves_out_what_is_no_document(world):
    """As events do: drafts and hidden files are not searched."""
    for key in ("_drafts/a.md", "a/.b.md", "_c.md"):
        world.put(key, "words")
    world.put("a/e.md", "words")
    assert world.reconcile()["documents"] == 1
    assert {each.metadata["document"] for each in world.index.vectors.values()} == {"a/e.md"}


def test_a_document_may_have_every_key_of_s3_and_a_folder_is_none(world):
    """By events and the comparison; a key that cannot be a document's is reported with the reason.

    S3's console makes an empty object of a folder.
    """
    keys = [f"{key}x.md" for key in ODD_KEYS]
    for key in keys:
        world.put(key, f"words of {key!r}")
    for key in ("sub/", "sub/deep/", "./"):
        world.put(key, b"")
    world.put("full/", "words")
    events = [*map(world.event, keys[::2]), world.event("sub/"), world.event("full/")]
    assert world.handle(*events) == []
    repaired = world.reconcile()
    assert (repaired["documents"], repaired["refused"]) == (len(keys) + 1, 1)
    assert repaired["changed"] == len(keys) // 2
    (letter,) = world.letters
    assert letter["key"] == "full/"
    assert "no suffix" in letter["reason"]
    assert world.found() == world.expected()
    assert {item.metadata["document"] for item in world.index.vectors.values()} == {*keys}
    for key in keys:
        world.delete(key)
    assert world.handle(*map(world.event, keys[::3])) == []
    world.reconcile()
    assert not world.index.vectors


def test_new_metadata_of_equal_content_in_the_same_second_is_seen(world):
    """By the comparison, after a lost event: the texts keep their vectors."""
    world.add("a.md", "words", year="2020")
    world.put("a.md", "words", year="2021")
    assert world.reconcile()["changed"] == 1
    (stored,) = world.index.vectors.values()
    assert stored.metadata["year"] == 2021


def test_a_document_that_is_gone_leaves_an_empty_list(world):
    """So the nightly comparison does not look at it for ever."""
    world.add("a.md", "words")
    (path,) = (path for path in world.s3.objects if "/chunks/" in path)
    world.delete("a.md")
    assert world.handle(world.event("a.md")) == []
    assert world.s3.objects[path] == b""
    assert world.reconcile()["documents"] == 0


def test_a_missing_permission_is_not_a_deleted_document(world):
    """S3 answers 403 to both, unless the role may list the bucket."""
    world.add("a.md", "words")
    world.delete("a.md")
    world.s3.missing = 403
    assert world.handle(world.event("a.md")) == ["0"]
    assert list(world.found().values()) == ["words"]


@pytest.mark.parametrize("error", [UnavailableError, UnexpectedError, EmbedderError])
def test_any_error_fails_its_message_alone(error):
    """SQS gives it again, and not those that were done."""

    def documents(step, _context):
        if step["message"] == "1":
            raise error("no")
        return {}

    records = [{"messageId": number, "body": number} for number in "012"]
    answer = entry(documents, documents)({"Records": records}, Context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "1"}]}


@pytest.mark.parametrize(
    ("job", "problem"), [({"source": "s3://a"}, "no settings; found source"), ([], "found list")]
)
def test_a_reconciliation_with_settings_is_refused(world, job, problem):
    """It is always of all documents."""
    with pytest.raises(BatchError, match=problem):
        world.reconciliation.run({"step": "plan", "defaults": {}, "job": job})


def test_a_message_that_is_no_event_fails_alone(world):
    """The others of its batch are done."""
    world.put("a.md", "words")
    outside = world.event("x", bucket_key="other/a.md")
    assert world.handle("{}", world.event("a.md"), world.event("_hidden/a.md"), outside) == ["0"]
    assert len(world.index.vectors) == 1


@pytest.mark.parametrize(
    ("error", "name"),
    [
        (ConnectTimeoutError(endpoint_url="https://sqs"), "ConnectTimeoutError"),
        (ClientError({"Error": {"Code": "AccessDenied"}}, "SendMessage"), "AccessDenied"),
    ],
)
def test_a_letter_that_cannot_be_sent_ends_no_run(world, monkeypatch, capsys, error, name):
    """It is a line of the log and a metric, its list is written, and few attempts take time."""
    attempts = []

    def send(_):
        attempts.append(world.clock[0])
        raise error

    monkeypatch.setattr(world.documents._report.__self__, "_send", send)
    for number in range(3):
        world.put(f"{number}.md", b"secret words, then \xff")
    world.put("good.md", "readable words")
    assert world.handle(world.event("0.md")) == []
    found = world.reconcile()
    assert (found["refused"], found["unsent"]) == (3, 2)
    assert list(world.found().values()) == ["readable words"]
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    letter = {"level": "ERROR", "message": "letter", "error": name}
    assert lines == [letter | {"key": f"{number}.md"} for number in range(3)]
    assert len(attempts) == 1
    again = world.reconcile()
    assert (again["refused"], again["unsent"]) == (3, 0)
    world.clock[0] += 60
    world.put("4.md", b"\xff")
    world.handle(world.event("4.md"))
    assert len(attempts) == 2


def test_the_metric_of_unsent_letters_has_no_value_without_one(world, monkeypatch):
    """CloudWatch bills a metric of each hour in which it has one."""
    names = {name: of for name, (_, of) in world.messages.metrics.items()}
    step = {"step": "document", "message": world.event("a.md"), "deadline": 2e9}
    world.put("a.md", b"\xff")
    assert world.messages.run(step)[names["UnsentLetters"]] is None

    def send(_):
        # When a letter is sent, its list is written: what ends the function now is not repeated.
        assert world.documents.unchanged("a.md").refused == 1
        raise ConnectTimeoutError(endpoint_url="https://sqs")

    monkeypatch.setattr(world.documents._report.__self__, "_send", send)
    world.put("a.md", b"\xfe")
    assert world.messages.run(step)[names["UnsentLetters"]] == 1
