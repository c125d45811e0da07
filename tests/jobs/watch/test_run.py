"""A run of the watch over some documents: what counts as wrong, and what does not."""

import json
import random

import numpy as np
import pytest

from embedder.core.settings import EmbedderSettings
from jobs.errors import BatchError, VectorSpaceError
from jobs.load.index_client import StoredVector
from jobs.steps import logged
from jobs.watch import run as watch_run
from jobs.watch.run import TOP, KnownVectors, read_questions
from tests.fixtures.s3_vectors.indexes import Index, Stored
from tests.jobs.ingest.conftest import SOURCE, KilledError, paragraphs
from tests.jobs.watch.conftest import DAY, Watched, questions_of

QUESTION = {"query": "how", "document": "a.md"}


@pytest.fixture
def some(watched: Watched) -> Watched:
    """Index 20 documents of some chunks each, of which five questions are about."""
    rng = random.Random(5)
    for number in range(20):
        watched.put(f"d/{number}.md", "\n\n".join(paragraphs(rng, 8)))
    watched.ask(*questions_of(watched.world, rng, 5))
    watched.world.clock[0] += DAY
    return watched


def test_the_report_has_numbers_and_no_text(some, capsys):
    """Neither do the log and the metrics, nor do they name a document."""
    vectors = some.world.index.vectors
    key = next(iter(vectors))
    vectors[key] = Stored(vectors[key].numbers, {**vectors[key].metadata, "year": 1})
    some.put("d/0.md", "secret words", indexed=False)
    settings = EmbedderSettings(
        artifact="", environment="test", metrics_namespace="EmbeddingKit/test"
    )
    logged(some.steps(), settings)({"step": "watch"}, None)
    line, record = map(json.loads, capsys.readouterr().out.splitlines())
    report = some.report()
    assert report["named"]["wrong_metadata"] == [key]
    assert report["vectors"] == line["vectors"] == len(vectors)
    assert record["WrongVectors"] == record["WrongMetadata"] == 1
    assert (record["Recall"], record["GoldenFound"]) == (100, 100)
    words = {word for each in vectors.values() for word in each.metadata["text"].split()}
    written = json.dumps([report, line, record])
    assert not [word for word in {*words, "secret", "d/0.md"} if f'"{word}' in written]


def test_an_empty_index_has_no_recall(watched, capsys):
    """A metric without a value is not written, because CloudWatch refuses one that is null."""
    logged(watched.steps(asked=False), EmbedderSettings(artifact=""))({"step": "watch"}, None)
    record = json.loads(capsys.readouterr().out.splitlines()[1])
    (directive,) = record["_aws"]["CloudWatchMetrics"]
    names = {metric["Name"] for metric in directive["Metrics"]}
    assert names == set(watch_run.WatchSteps.metrics) - {"Recall", "GoldenFound", "QueryDrift"}
    assert record["WrongVectors"] == record["OldestChange"] == 0
    assert names <= record.keys()


def test_a_vector_of_another_program_is_wrong(some):
    """No list of a document names it, so no one would delete it."""
    key, stored = next(iter(some.world.index.vectors.items()))
    some.world.index.vectors["other"] = stored
    some.world.index.vectors["bare"] = Stored(stored.numbers, {})
    result = some.run()
    assert (result["unlisted"], result["wrong_metadata"], result["wrong"]) == (2, 2, 2)
    assert key not in some.report()["named"]["unlisted"]


@pytest.mark.parametrize(("cosine", "foreign"), [(0.98, 1), (0.995, 0)])
def test_a_vector_of_another_model_is_found_by_its_text(some, cosine, foreign):
    """Those of the same model on another processor are nearer."""
    key, stored = next(iter(some.world.index.vectors.items()))
    numbers = np.asarray(stored.numbers)
    aside = np.roll(numbers, 1)
    aside -= (aside @ numbers) * numbers
    turned = cosine * numbers + np.sqrt(1 - cosine**2) * aside / np.linalg.norm(aside)
    some.world.index.vectors[key] = Stored(turned.astype(np.float32), stored.metadata)
    assert some.run()["foreign"] == foreign


def test_a_chunk_that_the_index_has_lost_is_missing(some):
    """The list of its document says that it is there."""
    key = next(iter(some.world.index.vectors))
    del some.world.index.vectors[key]
    assert (some.run()["missing"], some.report()["named"]["missing"]) == (1, [key])


def test_numbers_in_another_form_are_the_same_metadata(some):
    """The index may return 2001 as 2001.0; the document is read to tell."""
    vectors = some.world.index.vectors
    for key, stored in vectors.items():
        year = float(stored.metadata["year"])
        vectors[key] = Stored(stored.numbers, {**stored.metadata, "year": year})
    assert some.run()["wrong"] == 0


@pytest.mark.parametrize("place", ["_index.read", "_index.existing", "_source.after", "_all"])
def test_documents_that_change_during_a_run_are_not_wrong(some, monkeypatch, place):
    """What looks wrong is looked at again."""
    steps = some.steps()
    owner = getattr(steps, place.partition(".")[0], watch_run)
    name = place.rpartition(".")[2]
    real = getattr(owner, name)

    def overtaken(*given):
        monkeypatch.setattr(owner, name, real)
        found = real(*given)
        for number in range(10):
            some.put(f"d/{number}.md", "\n\n".join(paragraphs(random.Random(number), 3)))
            some.delete(f"d/{number + 10}.md")
        return found

    some.ask(*questions_of(some.world, random.Random(0), 5))
    monkeypatch.setattr(owner, name, overtaken)
    result = steps.run({"step": "watch"})
    assert (result["wrong"], result["oldest_change"]) == (0, 0)
    # None if no vector of the sample is left.
    assert result["recall"] in {100, None}


def test_a_deleted_document_that_stays_in_the_index_is_found_the_next_day(some):
    """S3 does not say when it was deleted, so the time counts from the run that misses it."""
    some.world.delete("d/3.md")
    first = some.run(1)
    assert (first["gone"], first["oldest_change"]) == (1, 0)
    some.world.clock[0] += DAY
    assert some.run(2, sample=100)["oldest_change"] == DAY
    some.index("d/3.md")
    some.world.clock[0] += DAY
    assert some.run(3)["oldest_change"] == 0


def test_a_gone_document_counts_if_an_interrupted_run_has_written_its_chunks(some):
    """Its list does not name them as present, and they are in the index."""
    some.put("d/new.md", "new words", indexed=False)
    some.world.writes_left = 2
    with pytest.raises(KilledError):
        some.index("d/new.md")
    some.world.delete("d/new.md")
    some.world.writes_left = None
    assert some.run()["gone"] == 1


def test_a_new_document_without_a_list_is_found(some):
    """Its event is lost. What is no document does not count."""
    some.put("d/new.md", "new words", indexed=False)
    some.put("_drafts/b.md", "other words", indexed=False)
    some.world.clock[0] += 60
    result = some.run()
    assert (result["changed"], result["oldest_change"]) == (1, 60)


def test_vectors_that_searches_do_not_find_lower_the_recall(some, monkeypatch):
    """A third of the answers' entries is left out, as an approximate index may do."""
    real = Index.query

    def approximate(index, request):
        page = real(index, {**request, "topK": 400})
        kept = [each for each in page["vectors"] if int(each["key"], 16) % 3]
        return {**page, "vectors": kept[: request["topK"]]}

    monkeypatch.setattr(Index, "query", approximate)
    result = some.run()
    assert 55 < result["recall"] < 78
    assert result["wrong"] == 0


def test_vectors_as_near_as_the_last_one_need_not_be_in_an_answer():
    """There is room for some of them only."""
    vectors = [StoredVector(str(n), np.ones(4, np.float32), {}) for n in range(TOP + 1)]
    known = KnownVectors(vectors)
    known.compare(vectors[0].numbers, [(str(n), 1.0) for n in range(TOP)])
    assert (known.expected, known.missed) == (0, [])
    known.compare(vectors[0].numbers, [(str(n), 1.0) for n in range(TOP - 1)])
    assert (known.expected, known.missed) == (TOP + 1, ["99", "100"])


def test_questions_that_do_not_find_their_documents_are_named_by_their_lines(some):
    """One is about a document that does not exist, one about another document."""
    first, second, *_ = some.questions
    wrong = {**second, "document": "d/none.md"}
    some.ask(first, wrong, {"query": paragraphs(random.Random(99), 1)[0], "document": "d/none.md"})
    result = some.run()
    assert (result["not_found"], result["golden_found"]) == (2, 33.333)
    assert some.report()["named"]["not_found"] == [2, 3]


def test_a_question_must_find_its_document_among_the_first_ten(some, monkeypatch):
    """Nobody reads on: a chunk at place 11 is not found."""
    real, target = Index.query, some.questions[0]["document"]

    def lowered(index, request):
        page = real(index, request)
        own = [
            each
            for each in page["vectors"]
            if index.vectors[each["key"]].metadata["document"] == target
        ]
        others = [each for each in page["vectors"] if each not in own]
        return {**page, "vectors": [*others[:10], *own, *others[10:]]}

    assert some.run()["not_found"] == 0
    monkeypatch.setattr(Index, "query", lowered)
    some.run()
    assert 1 in some.report()["named"]["not_found"]


def test_drift_is_the_distance_of_the_questions_from_the_documents(some):
    """It is that to the nearest chunk, and grows when the documents no longer answer them."""
    before = some.run()["query_drift"]
    for question in some.questions:
        some.put(question["document"], "\n\n".join(paragraphs(random.Random(0), 3)))
    assert 0 <= before < 0.2 < some.run()["query_drift"] - before


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "0 questions; 1 to 1000"),
        ([QUESTION] * 1001, "1001 questions; 1 to 1000"),
        ([QUESTION, {"query": "secret"}], "Line 2 of the questions"),
        ([QUESTION, "secret"], "Line 2 of the questions"),
        ([{**QUESTION, "answer": "secret"}], "Line 1 of the questions"),
        ([{**QUESTION, "query": " "}], "Line 1 of the questions"),
        ([{**QUESTION, "document": 7}], "Line 1 of the questions"),
    ],
)
def test_a_line_that_is_no_question_is_refused_by_its_number(lines, problem):
    """The message has none of its text."""
    with pytest.raises(BatchError) as caught:
        read_questions("\n".join(map(json.dumps, lines)).encode())
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)


def test_an_index_of_another_model_is_refused(some):
    """Every vector would be wrong."""
    some.world.index.tags["embedding-kit:vector-space"] = "other"
    with pytest.raises(VectorSpaceError, match="has vectors of other"):
        some.run()


def test_a_slow_model_embeds_what_it_has_time_for(some, monkeypatch):
    """The report says how many texts that were; the rest of the run goes on."""
    whole = some.run()
    assert whole["embedded"] == whole["vectors"]
    monkeypatch.setattr(watch_run, "_SECONDS", -1)
    assert some.run() | {"embedded": whole["embedded"]} == whole


def test_only_the_report_is_written(some):
    """The function has no permission for more."""
    before = dict(some.world.s3.objects), dict(some.world.index.vectors)
    some.world.s3.requests.clear()
    some.run()
    changed = [path for method, path, _ in some.world.s3.requests if method in {"PUT", "DELETE"}]
    assert len(changed) == 1
    assert "/watch/" in changed[0]
    assert SOURCE not in changed[0]
    assert before[1] == some.world.index.vectors
