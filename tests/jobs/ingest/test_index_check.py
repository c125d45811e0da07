"""The check at the end of a reconciliation: what counts as wrong, and what does not."""

import json
import random
import zlib
from dataclasses import replace

import numpy as np
import pytest

from embedder.core.engine import Engine
from embedder.core.settings import EmbedderSettings
from jobs.errors import BatchError
from jobs.ingest import index_check
from jobs.ingest.index_check import read_questions
from jobs.ingest.run import ReconcileSteps
from jobs.steps import logged
from tests.embedder.small_model import WordTokenizer, manifest_of
from tests.fixtures.s3_vectors.indexes import Index, Stored
from tests.jobs.ingest.conftest import SETTINGS, paragraphs

QUESTION = {"query": "how", "document": "a.md"}
QUESTIONS = "documents/_questions/golden.jsonl"


class WordSession:
    """A session that gives texts with common words near vectors."""

    def __init__(self):
        words = np.random.default_rng(0).standard_normal((1000, 64))
        words[:3] = 0.0  # padding and special tokens
        self._words = words.astype(np.float32)

    def run(self, input_ids, attention_mask):
        """Return the sums of the words' vectors, of length 1."""
        sums = (self._words[input_ids] * attention_mask[:, :, None]).sum(axis=1)
        return sums / np.linalg.norm(sums, axis=1, keepdims=True)


@pytest.fixture
def engine() -> Engine:
    return Engine(manifest_of(max_tokens=34, dimensions=(64, 32)), WordTokenizer(), WordSession())


@pytest.fixture
def ingest_settings(request):
    questions = f"s3://{QUESTIONS}" if getattr(request, "param", True) else None
    return replace(SETTINGS, questions=questions)


@pytest.fixture
def some(world):
    """Index 20 documents of some chunks each, of which five questions are about."""
    rng = random.Random(5)
    for number in range(20):
        key = f"d/{number}.md"
        year = str(2000 + zlib.crc32(key.encode()) % 20)
        text = "\n\n".join([f"# Part {number}", *paragraphs(rng, 8)])
        world.add(key, text, year=year)
    chosen = rng.sample(sorted(world.index.vectors), 5)
    metadata = [world.index.vectors[key].metadata for key in chosen]
    ask(
        world,
        *(
            {"query": " ".join(each["text"].split()[:15]), "document": each["document"]}
            for each in metadata
        ),
    )
    return world


def ask(world, *questions):
    """Write the file with golden questions."""
    world.s3.objects[QUESTIONS] = "\n".join(map(json.dumps, questions)).encode()


def asked(world):
    """Return the golden questions."""
    return [json.loads(line) for line in world.s3.objects[QUESTIONS].splitlines()]


def finished(world, capsys):
    """Return the records of metrics that the last step of a reconciliation writes."""
    plan = world.reconciliation.run({"step": "plan"})
    for line in world.s3.objects[f"{plan['bucket']}/{plan['groups_key']}"].splitlines():
        world.reconciliation.run(
            {"step": "group", "folder": plan["folder"], "group": json.loads(line)}
        )
    handler = logged(world.reconciliation, EmbedderSettings(artifact=""))
    handler({"step": "finish", "folder": plan["folder"]}, None)
    return list(map(json.loads, capsys.readouterr().out.splitlines()))


def test_a_good_index_has_nothing_wrong(some):
    """Each question finds its document."""
    result = some.reconcile()
    assert result["sampled"] == result["compared"] == len(some.index.vectors)
    assert (result["missing"], result["foreign"], result["wrong_metadata"]) == (0, 0, 0)
    assert (result["golden_found"], result["not_found"]) == (100, [])


def test_the_metrics_are_written_by_the_last_step_without_a_text(some, capsys):
    """Neither the log nor the metrics name a document."""
    vectors = some.index.vectors
    key = next(iter(vectors))
    vectors[key] = Stored(vectors[key].numbers, {**vectors[key].metadata, "year": 1})
    line, record = finished(some, capsys)
    assert record["WrongMetadata"] == line["wrong_metadata"] == 1
    assert (record["MissingVectors"], record["ForeignVectors"]) == (0, 0)
    assert record["GoldenFound"] == 100
    assert "RepairedDocuments" not in record
    words = {word for each in vectors.values() for word in each.metadata["text"].split()}
    written = json.dumps([line, record])
    assert not [word for word in {*words, "d/0.md"} if f'"{word}' in written]


@pytest.mark.parametrize("ingest_settings", [False], indirect=True)
def test_an_empty_index_without_questions_has_three_metrics(world, capsys):
    """A metric without a value is not written, because CloudWatch refuses one that is null."""
    record = finished(world, capsys)[-1]
    (directive,) = record["_aws"]["CloudWatchMetrics"]
    names = {metric["Name"] for metric in directive["Metrics"]}
    assert names == ReconcileSteps.final_metrics.keys() - {"GoldenFound"}
    assert [record[name] for name in sorted(names)] == [0, 0, 0]


@pytest.mark.parametrize(("cosine", "foreign"), [(0.98, 1), (0.995, 0)])
def test_a_vector_of_another_model_is_found_by_its_text(some, cosine, foreign):
    """Those of the same model on another processor are nearer."""
    key, stored = next(iter(some.index.vectors.items()))
    numbers = np.asarray(stored.numbers)
    aside = np.roll(numbers, 1)
    aside -= (aside @ numbers) * numbers
    turned = cosine * numbers + np.sqrt(1 - cosine**2) * aside / np.linalg.norm(aside)
    some.index.vectors[key] = Stored(turned.astype(np.float32), stored.metadata)
    assert some.reconcile()["foreign"] == foreign


def test_a_slow_model_embeds_what_it_can(some, monkeypatch):
    """After the deadline no more texts are embedded; the questions come before them."""
    monkeypatch.setattr(index_check, "_SLICE", 5)
    real = some.engine.embed_request

    def slow(request):
        some.clock[0] += 300
        return real(request)

    monkeypatch.setattr(some.engine, "embed_request", slow)
    assert some.reconcile()["compared"] == 10


def test_a_chunk_that_the_index_has_lost_is_missing(some):
    """The list of its document says that it is in the index."""
    del some.index.vectors[next(iter(some.index.vectors))]
    assert some.reconcile()["missing"] == 1


def test_documents_that_change_meanwhile_miss_nothing(some, monkeypatch):
    """What looks wrong is looked at again."""
    real = some.documents.index.read

    def overtaken(keys):
        monkeypatch.setattr(some.documents.index, "read", real)
        for number in range(10):
            some.add(f"d/{number}.md", "\n\n".join(paragraphs(random.Random(number), 3)))
            some.delete(f"d/{number + 10}.md")
            some.handle(some.event(f"d/{number + 10}.md"))
        return real(keys)

    monkeypatch.setattr(some.documents.index, "read", overtaken)
    assert some.reconcile()["missing"] == 0


def test_a_chunk_that_is_written_after_the_sample_is_read_is_not_missing(some, monkeypatch):
    """The index is asked for it again."""
    vectors, real = some.index.vectors, some.documents.index.read
    chunk = next(iter(vectors))

    def earlier(keys):
        stored = vectors.pop(chunk)
        read = real(keys)
        vectors[chunk] = stored
        return read

    monkeypatch.setattr(some.documents.index, "read", earlier)
    assert some.reconcile()["missing"] == 0


def test_numbers_in_another_form_are_the_same_metadata(some):
    """The index may return 2001 as 2001.0; the document is read to compare."""
    vectors = some.index.vectors
    for key, stored in vectors.items():
        year = float(stored.metadata["year"])
        vectors[key] = Stored(stored.numbers, {**stored.metadata, "year": year})
    assert some.reconcile()["wrong_metadata"] == 0


def test_questions_that_do_not_find_their_documents_are_named_by_their_lines(some):
    """One is about a document that does not exist, one about another document."""
    first, second, *_ = asked(some)
    unknown = {"query": paragraphs(random.Random(99), 1)[0], "document": "d/none.md"}
    ask(some, first, {**second, "document": "d/none.md"}, unknown)
    result = some.reconcile()
    assert (result["golden_found"], result["not_found"]) == (33.333, [2, 3])


def test_a_question_must_find_its_document_among_the_first_ten(some, monkeypatch):
    """A chunk at place 11 is not found."""
    real, target = Index.query, asked(some)[0]["document"]

    def lowered(index, request):
        page = real(index, {**request, "topK": 100})
        own = [
            match
            for match in page["vectors"]
            if index.vectors[match["key"]].metadata["document"] == target
        ]
        others = [match for match in page["vectors"] if match not in own]
        return {**page, "vectors": [*others[:10], *own][: request["topK"]]}

    monkeypatch.setattr(Index, "query", lowered)
    assert 1 in some.reconcile()["not_found"]


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([], "0 questions; 1 to 1000"),
        ([QUESTION] * 1001, "1001 questions; 1 to 1000"),
        ([QUESTION, {"query": "secret"}], "Line 2 of the questions"),
        ([QUESTION, "secret"], "Line 2 of the questions"),
        ([{**QUESTION, "answer": "secret"}], "Line 1 of the questions"),
        ([{**QUESTION, "line": 5}], "Line 1 of the questions"),
        ([{**QUESTION, "query": " "}], "Line 1 of the questions"),
        ([{**QUESTION, "document": 7}], "Line 1 of the questions"),
    ],
)
def test_a_line_that_is_no_question_is_refused_by_its_number(lines, problem):
    """The message has none of its text."""
    with pytest.raises(BatchError, match=problem) as raised:
        read_questions("\n".join(map(json.dumps, lines)).encode())
    assert "secret" not in str(raised.value)


def test_empty_lines_are_no_questions():
    """A question has the number of its line in the file."""
    (question,) = read_questions(b"\n\n" + json.dumps(QUESTION).encode() + b"\n")
    assert question == (3, "how", "a.md")
