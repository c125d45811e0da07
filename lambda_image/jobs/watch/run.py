"""A run of the watch: samples of the index and of its documents, golden questions, and a report.

Vectors of random segments of the index are compared with what their keys were made from, with their
texts embedded again, and with the lists of their documents. The lists of these documents, of others
and of those that were written last are compared with the index and with the objects. A sample of n
finds what is wrong with a share p of the vectors with probability 1 - (1 - p)^n: for p = 1%, 99.9%
with n = 688 and 99.996% with n = 1,000.

Documents change meanwhile, so what looks wrong is looked at again before it counts. Reports, log
and metrics have hashes and numbers, and never a text or the key of a document.
"""

import random
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import orjson

from embedder.core.embedding_request import EmbedRequest, Inputs
from embedder.core.engine import Engine
from jobs.errors import BatchError, VectorSpaceError
from jobs.ingest.document_index import DocumentList, is_key_of, list_name, read_list
from jobs.ingest.documents import RefusedDocumentError, read_chunks
from jobs.ingest.run import IngestSettings, chunker_of, is_document, records_of, source_of
from jobs.load.index_client import SEGMENTS, IndexClient, IndexDescription, StoredVector
from jobs.steps import Steps
from jobs.storage import open_folder

Given = TypeVar("Given")
Found = TypeVar("Found")
#: By the keys of documents.
Lists = Mapping[str, DocumentList | None]

#: A vector with a lower cosine to that of its text, embedded again, is of another model.
_SAME = 0.99
#: A question finds its document if a chunk of it is among so many.
_FOUND_TOP = 10
#: Sampled vectors that the index is searched for; and chunks of a document that are read in
#: addition, because they are likely to be near.
_PROBES, _NEIGHBORS = 50, 20
#: Keys of the index, and objects, that a run lists; each thousand takes a request.
_LISTED = 100_000
#: Objects that were written last: those that no run has indexed are likely to be among them.
_NEWEST = 100
#: Hashes of each kind that a report has.
_NAMED = 100
#: Texts that are embedded at a time, and requests to AWS.
_SLICE, _THREADS = 32, 16
#: For the texts. Lambda ends the function after 900.
_SECONDS = 780
#: Entries of an answer.
TOP = 100
#: Cosines that differ by less are equal.
_TIE = 1e-4
_MAX_QUESTIONS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """What the function compares: the variable `EMBEDDING_WATCH`, as JSON."""

    #: How many vectors, and how many documents.
    sample: int
    #: The file with golden questions, `s3://bucket/key`.
    questions: str | None = None


class Question(NamedTuple):
    """A question that must find a document."""

    #: Its line in the file.
    line: int
    query: str
    #: The document's key, below the folder of documents.
    document: str


class KnownVectors:
    """Vectors that are in the index, and which of them its answers lack.

    Those that are nearer to a query than the last entry of the answer must be in the answer.
    """

    def __init__(self, vectors: Sequence[StoredVector]) -> None:
        self._keys = [vector.key for vector in vectors]
        self._rows = np.stack([vector.numbers for vector in vectors]) if vectors else None
        #: How many must be in the answers so far, and the keys of those that are not.
        self.expected = 0
        self.missed: list[str] = []

    def compare(self, query: npt.NDArray[np.float32], answer: Sequence[tuple[str, float]]) -> None:
        """Count what the answer to a query must have; it has keys and cosines, best first."""
        if self._rows is None:
            return
        # An answer that is shorter than it may be has all vectors.
        last = answer[-1][1] if len(answer) == TOP else -np.inf
        found = {key for key, _ in answer}
        nearer = np.flatnonzero(cosines(self._rows, query) > last + _TIE)
        self.expected += len(nearer)
        self.missed += [key for place in nearer if (key := self._keys[place]) not in found]


class WatchSteps(Steps):
    """Runs the watch; the only step is `watch`. The seed chooses the samples; None for others."""

    message = "watch"
    item = "watch"
    metrics: ClassVar[Mapping[str, tuple[str, str]]] = {
        "Recall": ("Percent", "recall"),
        "GoldenFound": ("Percent", "golden_found"),
        "QueryDrift": ("None", "query_drift"),
        "OldestChange": ("Seconds", "oldest_change"),
        "WrongVectors": ("Count", "wrong"),
        "MissingVectors": ("Count", "missing"),
        "ForeignVectors": ("Count", "foreign"),
        "WrongMetadata": ("Count", "wrong_metadata"),
    }

    def __init__(
        self,
        ingest: IngestSettings,
        settings: WatchSettings,
        engine: Engine,
        *,
        now: Callable[[], float] = time.time,
        seed: int | None = None,
    ) -> None:
        self._ingest, self._settings, self._engine, self._now = ingest, settings, engine, now
        self._random = random.Random(seed)  # noqa: S311 - it chooses samples
        self._chunker = chunker_of(ingest, engine)
        records = records_of(ingest)
        self._source, self._documents = open_folder(ingest.source), source_of(ingest)
        self._lists = open_folder(f"{records}/chunks")
        self._reports = open_folder(f"{records}/watch")
        self._index = IndexClient(ingest.index, connections=_THREADS)

    def work(self, event: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - it has no more
        """Compare the samples, and write the report; None is what could not be measured."""
        began, index = self._now(), self._index.describe()
        space = self._engine.vector_space(index.dimension)
        if index.vector_space not in {space, None}:
            raise VectorSpaceError(
                f"The index has vectors of {index.vector_space}; the model's are of {space}."
            )
        (before,) = [
            orjson.loads(self._reports.read(file.key)) for file in list(self._reports.files())[-1:]
        ] or [{"named": {}}]
        sampled = self._sampled_vectors()
        lists = self._sampled_lists(sampled)
        embedded, foreign = self._foreign(sampled, index.dimension, deadline=began + _SECONDS)
        found: dict[str, Sequence[Any]] = {
            **self._compare_metadata(sampled, lists, index),
            "foreign": foreign,
            "missing": self._missing_chunks(lists),
        }
        wrong = set().union(*found.values())
        oldest, changes = self._changes(lists, before)
        probes = self._random.sample(sampled, min(_PROBES, len(sampled)))
        known = KnownVectors([*sampled, *self._neighbors(probes, sampled, lists)])
        self._search(known, [vector.numbers for vector in probes])
        golden, not_found = self._ask(known, index.dimension)
        found = {**found, **changes, "not_found": not_found}
        result = {
            "vectors": len(sampled),
            "embedded": embedded,
            "documents": len(lists),
            "wrong": len(wrong),
            **{name: len(values) for name, values in found.items()},
            "oldest_change": round(oldest, 3),
            **golden,
            "recall": self._recall(known),
        }
        named = {name: values[:_NAMED] for name, values in found.items() if values}
        report = {**result, "time": began, "vector_space": space, "named": named}
        key = f"{datetime.fromtimestamp(began, UTC):%Y%m%d-%H%M%S}.json"
        self._reports.write(key, orjson.dumps(report, option=orjson.OPT_INDENT_2))
        return {**result, "written": True, "seconds": round(self._now() - began, 3)}

    def _sampled_vectors(self) -> list[StoredVector]:
        keys: list[str] = []
        for segment in self._random.sample(range(SEGMENTS), SEGMENTS):
            keys += islice(self._index.keys(segment), _LISTED - len(keys))
            if len(keys) >= self._settings.sample:
                break
        return self._index.read(self._some(keys))

    def _sampled_lists(self, sampled: Sequence[StoredVector]) -> Lists:
        """Return the lists of the vectors' documents, of the newest objects, and of others."""
        named = sorted({_document(vector) for vector in sampled})
        start = self._random.choice(named) if named else ""
        objects = [each for each in self._source.after(start, _LISTED) if is_document(each.key)]
        newest = sorted(objects, key=lambda each: each.modified)[-_NEWEST:]
        return self._lists_of({*named, *(each.key for each in [*newest, *self._some(objects)])})

    def _some(self, items: Sequence[Given]) -> list[Given]:
        return self._random.sample(items, min(self._settings.sample, len(items)))

    def _lists_of(self, documents: Iterable[str]) -> Lists:
        keys = sorted(documents)
        return dict(zip(keys, _all(self._list, map(list_name, keys)), strict=True))

    def _list(self, name: str) -> DocumentList | None:
        return read_list(self._lists.read_object(name))

    def _compare_metadata(
        self, sampled: Sequence[StoredVector], lists: Lists, index: IndexDescription
    ) -> dict[str, list[str]]:
        """Find vectors that no list names, or with other metadata than their documents have."""
        unlisted, wrong = [], []
        own: dict[str, Mapping[str, Any]] = {}
        for vector in sampled:
            document = _document(vector)
            listed = lists[document]
            if listed is None or vector.key not in {*listed.present, *listed.possible}:
                unlisted.append(vector.key)
            if is_key_of(vector.key, vector.metadata):
                continue
            # The index may return a number in another form than the hash was made of.
            if document not in own:
                own[document] = self._chunks_of(document, index)
            if own[document].get(vector.key) != vector.metadata:
                wrong.append(vector.key)
        # A run may have deleted some since.
        return {"unlisted": sorted(self._index.existing(unlisted)), "wrong_metadata": wrong}

    def _chunks_of(self, document: str, index: IndexDescription) -> Mapping[str, Any]:
        version, wanted = self._source.version(document), self._ingest.metadata
        if version is None:
            return {}
        keys = {"wanted": wanted, "non_filterable": index.non_filterable}
        try:
            return read_chunks(self._documents, document, version[1], self._chunker, **keys)
        except RefusedDocumentError:
            return {}

    def _foreign(
        self, sampled: Sequence[StoredVector], dimension: int, *, deadline: float
    ) -> tuple[int, list[str]]:
        """Return how many texts there was time to embed, and the vectors that are not theirs."""
        # What another program wrote may have no text.
        rows = [each for each in sampled if str(each.metadata.get("text", "")).strip()]
        found: list[str] = []
        for start in range(0, len(rows), _SLICE):
            if self._now() > deadline:
                return start, found
            part = rows[start : start + _SLICE]
            texts = [str(each.metadata["text"]) for each in part]
            own = self._embed(texts, self._chunker.prompt, dimension)
            same = cosines(own, np.stack([each.numbers for each in part])) >= _SAME
            found += [each.key for each, right in zip(part, same, strict=True) if not right]
        return len(rows), found

    def _embed(
        self, texts: Sequence[str], prompt: str | None, dimension: int
    ) -> npt.NDArray[np.float32]:
        longest = self._engine.limits.max_characters
        inputs = Inputs(texts=[text[:longest] for text in texts])
        request = EmbedRequest(inputs, prompt=prompt, dimensions=dimension, truncate="right")
        return self._engine.embed_request(request).vectors

    def _missing_chunks(self, lists: Lists) -> list[str]:
        names = {key: listed.key for listed in lists.values() if listed for key in listed.present}
        missing = self._missing(self._some(list(names)))
        again = self._lists_of({names[key] for key in missing})
        still = [key for key in missing if (now := again[names[key]]) and key in now.present]
        return self._missing(still)

    def _missing(self, keys: Sequence[str]) -> list[str]:
        there = self._index.existing(keys)
        return [key for key in keys if key not in there]

    def _changes(
        self, lists: Lists, before: Mapping[str, Any]
    ) -> tuple[float, dict[str, list[str]]]:
        """Return the documents that changed or are gone, and the seconds since the oldest change.

        S3 does not say when an object was deleted. So of one that is gone, the seconds are those
        since the run before, if that found it gone too.
        """
        earlier = [self._list(name) for name in before["named"].get("gone", [])]
        lists = {**lists, **{listed.key: listed for listed in earlier if listed}}
        # What differs is compared again: a document may change and be indexed meanwhile.
        differs = self._not_indexed(self._lists_of(self._not_indexed(lists)))
        gone = [list_name(key) for key, version in differs.items() if version is None]
        times = [
            datetime.fromisoformat(each.rpartition(" ")[2]) for each in differs.values() if each
        ]
        began = self._now()
        oldest = min([began, *(each.timestamp() for each in times)])
        if not set(gone).isdisjoint(before["named"].get("gone", [])):
            oldest = min(oldest, before["time"])
        changed = [list_name(key) for key, version in differs.items() if version]
        return began - oldest, {"changed": changed, "gone": gone}

    def _not_indexed(self, lists: Lists) -> dict[str, str | None]:
        """Return documents that lists have in another version, with that of S3; None of none."""
        found: dict[str, str | None] = {}
        for (key, listed), version in zip(
            lists.items(), _all(self._source.version, lists), strict=True
        ):
            if version is None and listed and (listed.present or listed.possible):
                found[key] = None
            if version and not (listed and listed.version.startswith(f"{version[0]} ")):
                found[key] = version[0]
        return found

    def _neighbors(
        self, probes: Sequence[StoredVector], sampled: Sequence[StoredVector], lists: Lists
    ) -> list[StoredVector]:
        """Return further chunks of the documents of the probes."""
        near = {
            key
            for document in {_document(probe) for probe in probes}
            if (listed := lists[document])
            for key in listed.present[:_NEIGHBORS]
        }
        return self._index.read(sorted(near - {vector.key for vector in sampled}))

    def _search(
        self, known: KnownVectors, queries: Sequence[npt.NDArray[np.float32]]
    ) -> list[list[tuple[str, float]]]:
        answers = _all(lambda query: self._index.query(query, TOP), queries)
        for query, answer in zip(queries, answers, strict=True):
            known.compare(query, answer)
        return answers

    def _recall(self, known: KnownVectors) -> float | None:
        """Return the share of what answers must have that they have, in percent."""
        # A run may have deleted some since.
        there = self._index.existing(sorted(set(known.missed)))
        missed = sum(key in there for key in known.missed)
        expected = known.expected - (len(known.missed) - missed)
        return round(100 * (1 - missed / expected), 3) if expected else None

    def _ask(
        self, known: KnownVectors, dimension: int
    ) -> tuple[dict[str, float | None], list[int]]:
        """Search for the golden questions; return numbers, and the lines of those that fail."""
        if self._settings.questions is None:
            return {"golden_found": None, "query_drift": None}, []
        folder, _, name = self._settings.questions.rpartition("/")
        questions = read_questions(open_folder(folder).read(name))
        prompt = "query" if "query" in self._engine.limits.prompts else None
        vectors = self._embed([question.query for question in questions], prompt, dimension)
        answers = self._search(known, list(vectors))
        lists = _all(lambda question: self._list(list_name(question.document)), questions)
        failed = [
            question.line
            for question, answer, listed in zip(questions, answers, lists, strict=True)
            if not listed or {key for key, _ in answer[:_FOUND_TOP]}.isdisjoint(listed.present)
        ]
        # The mean distance of a question to the nearest chunk.
        nearest = [answer[0][1] if answer else 0.0 for answer in answers]
        drift = 1 - sum(nearest) / len(nearest)
        share = 1 - len(failed) / len(questions)
        return {"golden_found": round(100 * share, 3), "query_drift": round(drift, 4)}, failed


def _document(vector: StoredVector) -> str:
    return str(vector.metadata.get("document"))


def _all(work: Callable[[Given], Found], items: Iterable[Given]) -> list[Found]:
    """Return the results of all items, in their order; most of the time they wait for AWS."""
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(work, items))


def cosines(
    rows: npt.NDArray[np.float32], others: npt.NDArray[np.float32]
) -> npt.NDArray[np.float32]:
    """Return the cosines, [rows], of rows and as many others, or one other."""
    lengths = np.linalg.norm(rows, axis=-1) * np.linalg.norm(others, axis=-1)
    found: npt.NDArray[np.float32] = np.sum(rows * others, axis=-1)
    found /= np.maximum(lengths, np.finfo(np.float32).tiny)
    return found


def read_questions(data: bytes) -> list[Question]:
    """Read golden questions, one on a line, as `{"query": ..., "document": ...}`.

    An error has the number of the line, and none of its text.
    """
    questions = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            found = orjson.loads(line)
        except orjson.JSONDecodeError:
            found = None
        if (
            not isinstance(found, dict)
            or found.keys() != {"query", "document"}
            or not all(isinstance(value, str) and value.strip() for value in found.values())
        ):
            raise BatchError(
                f"Line {number} of the questions must be an object with the texts query and "
                "document, the key of a document below the source of [ingest]."
            )
        questions.append(Question(number, found["query"], found["document"]))
    if not 1 <= len(questions) <= _MAX_QUESTIONS:
        raise BatchError(f"{len(questions)} questions; 1 to {_MAX_QUESTIONS} are allowed.")
    return questions
