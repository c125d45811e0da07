"""Golden questions, and what an answer of the index must have if it is right."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from jobs.errors import BatchError
from jobs.load.index_client import StoredVector

#: Entries of an answer.
TOP = 100
#: Cosines that differ by less are equal.
_TIE = 1e-4
_MAX_QUESTIONS = 1000


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
