"""BM25: weights of words from counts, with which a search by words needs no model.

The weight of a word in an entry is

    log(1 + (entries - entries with it + 0.5) / (entries with it + 0.5))
    * count / (count + K1 * (1 - B + B * words of the entry / mean words of an entry))

and an entry's score the sum over the query's words: BM25 as Lucene has it, with the constants that
`bm25s` has by default. S. Robertson, H. Zaragoza, "The Probabilistic Relevance Framework: BM25 and
Beyond", 2009; C. Kamphuis, A. de Vries, L. Boytsov, J. Lin, "Which BM25 Do You Mean?", ECIR 2020.

The index has the weights as `Postings`, and the hashes of its words in `WORDS_FILE`.

Imported on demand: only an index with words pays for it.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from embedder.core.artifact import digest
from embedder.core.search import WORDS_FILE, LocalIndex, mapped, read_space
from embedder.core.sparse import Postings, SparseIndex, TokenWeights, make_postings, read_postings

if TYPE_CHECKING:  # see startup
    import numpy.typing as npt

#: The space of the weights: it changes with the words that `words` makes of a text.
SPACE = "bm25@1"
K1, B = 1.5, 0.75
_HASH_BYTES = 8
#: The last character of the table of spaces: all of Unicode would take 70 MB.
_LAST_CACHED = 0xFFFF
#: Scripts without spaces between words, of which each pair of letters is a word: Thai, Lao,
#: Myanmar, Khmer, kana, Han.
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]+)"
)


class _Spaced(dict[int, int]):
    """A table for `str.translate`: a space for what is no part of a word."""

    def __missing__(self, code: int) -> int:
        character = chr(code)
        is_part = character.isalnum() or unicodedata.category(character)[0] == "M"
        spaced = code if is_part or character == "_" else ord(" ")
        if code <= _LAST_CACHED:
            self[code] = spaced
        return spaced


_SPACED = _Spaced()


class WordIndex(SparseIndex):
    """Entries, and the weights of their words."""

    def __init__(self, *arguments: Any, words: npt.NDArray[np.uint64]) -> None:
        super().__init__(*arguments)
        self._words = words

    def weights(self, query: str) -> TokenWeights:
        """Return how often the query has each word that the index has."""
        counts = Counter(words(query))
        hashes = _hashes(counts)
        tokens = np.searchsorted(self._words, hashes)
        in_index = np.flatnonzero(tokens < len(self._words))
        in_index = in_index[self._words[tokens[in_index]] == hashes[in_index]]
        values = np.array([*counts.values()], np.float32)
        return TokenWeights(tokens[in_index].astype(np.uint32), values[in_index])


def words(text: str) -> Iterator[str]:
    """Yield the words of a text: letters, digits, marks and `_`, in lower case, without plurals."""
    for word in unicodedata.normalize("NFKC", text).casefold().translate(_SPACED).split():
        # Every second run is of scripts without spaces.
        for position, run in enumerate(_UNSPACED.split(word)):
            if position % 2 and len(run) > 1:
                yield from map("".join, pairwise(run))
            elif run:
                yield _singular(run)


def _singular(word: str) -> str:
    """Return an English word without the plural's ending.

    The S stemmer of D. Harman, "How Effective Is Suffixing?", JASIS 1991, and `-es` after x, ss and
    sh. In other languages it does the same to a query's words as to an entry's.
    """
    if len(word) <= 3 or word[-1] != "s":
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return f"{word[:-3]}y"
    if word.endswith(("us", "ss")):
        return word
    if word.endswith(("xes", "sses", "shes")):
        return word[:-2]
    return word[:-1]


def make_word_index(texts: Sequence[str]) -> tuple[npt.NDArray[np.uint64], Postings]:
    """Return the hashes of the texts' words in order, and the weights of these words."""
    numbers: dict[str, int] = {}
    counted = [
        np.unique(
            np.array([numbers.setdefault(word, len(numbers)) for word in words(text)], np.int64),
            return_counts=True,
        )
        for text in texts
    ]
    hashes, tokens = np.unique(_hashes(numbers), return_inverse=True)
    lengths = np.array([counts.sum() for _, counts in counted], np.float64)
    lengths /= max(lengths.mean(), 1.0)
    having = np.bincount(np.concatenate([ids for ids, _ in counted]), minlength=len(numbers))
    rarity = np.log1p((len(texts) - having + 0.5) / (having + 0.5))
    vectors = [
        TokenWeights(
            tokens[ids].astype(np.uint32),
            (rarity[ids] * counts / (counts + K1 * (1 - B + B * length))).astype(np.float32),
        )
        for (ids, counts), length in zip(counted, lengths.tolist(), strict=True)
    ]
    return hashes, make_postings(vectors, vocabulary=len(hashes))


def load_word_index(folder: str | os.PathLike[str], dense: LocalIndex) -> WordIndex:
    """Read the words and the postings of a folder, from which the `dense` index was read.

    Raises:
        IndexFolderError: if it is incomplete, or of other words.
    """
    space, _ = read_space(folder, spaces=[SPACE], field="sparse_space")
    hashes = mapped(os.path.join(folder, WORDS_FILE), np.uint64, dimensions=1)
    postings = read_postings(folder, len(hashes))
    return WordIndex(dense.texts, postings, space, dense.metadata, words=hashes)


def _hashes(distinct: Iterable[str]) -> npt.NDArray[np.uint64]:
    digests = [int.from_bytes(digest(word.encode(), _HASH_BYTES)) for word in distinct]
    return np.array(digests, np.uint64)
