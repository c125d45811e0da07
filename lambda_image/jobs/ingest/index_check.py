"""The check at the end of a reconciliation: a sample of the index, and golden questions.

A sample of 1,000 vectors finds what is wrong with 1% of them with a probability of 99.996%:
1 - (1 - 0.01)^1000. Its results are numbers, without a text or the key of a document.
"""

import random
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import orjson

from jobs.errors import BatchError
from jobs.ingest.document_index import DocumentIndex, is_key_of, passage_of
from jobs.load.index_client import StoredVector
from jobs.storage import open_folder

Element = TypeVar("Element")

#: Documents, and vectors, of a sample.
_SAMPLE = 1000
#: A vector with a lower cosine to that of its text, embedded again, is of another model.
_SAME = 0.99
#: Texts that are embedded at a time, and lists that are read.
_SLICE, _READERS = 32, 32
#: A question finds its document if a chunk of it is among so many.
_TOP = 10
_MAX_QUESTIONS = 1000


class GoldenQuestion(NamedTuple):
    """A question that must find a document."""

    #: Its line in the file.
    line: int
    query: str
    #: The document's key, below the folder of documents.
    document: str


class IndexCheck:
    """Checks an index; `questions` is the URL of a file with golden questions."""

    def __init__(self, documents: DocumentIndex, *, questions: str | None) -> None:
        self._documents, self._questions = documents, questions

    def run(self, documents: Sequence[str], *, deadline: float) -> dict[str, Any]:
        """Count what is wrong with a sample of the documents' vectors, and ask the questions.

        After the `deadline`, in seconds since 1970, no more texts are embedded.
        """
        documents_by_chunk = self._listed(_sample(documents))
        chunks = _sample(list(documents_by_chunk))
        vectors = self._documents.index.read(chunks)
        missing = {*chunks} - {vector.key for vector in vectors}
        # Their documents may have changed meanwhile.
        listed = self._listed({documents_by_chunk[chunk] for chunk in missing})
        missing &= {*listed} - self._documents.index.existing([*missing])
        golden_found, not_found = self._ask(self._questions) if self._questions else (None, [])
        # Last of what embeds: it takes the time that the questions leave.
        compared, foreign = self._foreign(vectors, deadline)
        return {
            "sampled": len(chunks),
            "compared": compared,
            "missing": len(missing),
            "foreign": foreign,
            "wrong_metadata": self._wrong_metadata(vectors),
            "golden_found": golden_found,
            "not_found": not_found,
        }

    def _listed(self, documents: Iterable[str]) -> dict[str, str]:
        """Return the chunks that the index has by the documents' lists, with the documents."""
        with ThreadPoolExecutor(_READERS) as pool:
            lists = pool.map(self._documents.list_of, documents)
            return {chunk: listed.key for listed in lists for chunk in listed.present}

    def _foreign(self, vectors: Sequence[StoredVector], deadline: float) -> tuple[int, int]:
        """Return how many texts there was time to embed, and how many vectors are not theirs."""
        vectors, foreign = [vector for vector in vectors if vector.metadata.get("text")], 0
        for start in range(0, len(vectors), _SLICE):
            if self._documents.now() > deadline:
                return start, foreign
            batch = vectors[start : start + _SLICE]
            passages = [passage_of(vector.metadata) for vector in batch]
            own = self._documents.embed(passages, self._documents.prompt)
            stored = np.stack([vector.numbers for vector in batch])
            lengths = np.linalg.norm(own, axis=1) * np.linalg.norm(stored, axis=1)
            foreign += int(np.sum(np.sum(own * stored, axis=1) < _SAME * lengths))
        return len(vectors), foreign

    def _wrong_metadata(self, vectors: Sequence[StoredVector]) -> int:
        """Count the vectors with other metadata than their documents have."""
        # The index may return a number in another form than the key was made from.
        doubtful = [vector for vector in vectors if not is_key_of(vector.key, vector.metadata)]
        chunks = cache(self._documents.chunks_now)
        return sum(
            chunks(str(vector.metadata.get("document"))).get(vector.key) != vector.metadata
            for vector in doubtful
        )

    def _ask(self, file: str) -> tuple[float, list[int]]:
        """Return the percentage of questions that find their document, and the lines of others."""
        folder, _, name = file.rpartition("/")
        questions = read_questions(open_folder(folder).read(name))
        vectors = self._documents.embed([question.query for question in questions], "query")
        not_found = []
        for question, vector in zip(questions, vectors, strict=True):
            matches = {key for key, _ in self._documents.index.query(vector, _TOP)}
            if matches.isdisjoint(self._documents.list_of(question.document).present):
                not_found.append(question.line)
        return round(100 * (1 - len(not_found) / len(questions)), 3), not_found


def _sample(elements: Sequence[Element]) -> list[Element]:
    return random.sample(elements, min(_SAMPLE, len(elements)))


def read_questions(data: bytes) -> list[GoldenQuestion]:
    """Read golden questions, one on a line, as `{"query": ..., "document": ...}`.

    An error has the number of the line, and none of its text.
    """
    questions = []
    for number, line in enumerate(data.splitlines(), 1):
        if not line.strip():
            continue
        try:
            question = GoldenQuestion(number, **orjson.loads(line))
        except (orjson.JSONDecodeError, TypeError):
            question = GoldenQuestion(number, "", "")
        if not all(isinstance(text, str) and text.strip() for text in question[1:]):
            raise BatchError(
                f"Line {number} of the questions must be an object with the texts query and "
                "document, the key of a document below the source of [ingest]."
            )
        questions.append(question)
    if not 1 <= len(questions) <= _MAX_QUESTIONS:
        raise BatchError(f"{len(questions)} questions; 1 to {_MAX_QUESTIONS} are allowed.")
    return questions
