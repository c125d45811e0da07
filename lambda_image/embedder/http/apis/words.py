"""`POST /similar` by the words of an index in the image: BM25, which needs no model.

Imported on demand: only an index with words pays for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from embedder.core.bm25 import WordIndex
from embedder.core.search import IndexMatch, SearchIndex
from embedder.http.apis import native
from embedder.http.apis.fields import truncate_field
from embedder.http.apis.operation import Call
from embedder.http.json_types import Field


class WordSimilar(native.Similar):
    """`{"text": …}` → the entries of the index that have its words, rare ones before all."""

    mode = "sparse"

    def fields(self) -> tuple[Field, ...]:
        # No prompt is put before words. Whoever allows a text to be cut allows it not to be.
        return (*self.search_fields(), truncate_field(self.engine.limits))

    def find(
        self,
        call: Call,
        index: SearchIndex,
        text: str,
        count: int,
        *,
        field: str,  # noqa: ARG002 - any text has words, or none
        with_words: bool = False,  # noqa: ARG002 - it does nothing else
        embedded: Callable[[], object] = lambda: None,
    ) -> list[IndexMatch]:
        """See `Similar`; a text without a word of the index finds nothing."""
        assert isinstance(index, WordIndex)  # noqa: S101 - for mypy: the router says so
        record, began = call.record, time.perf_counter()
        embedded()
        matches = index.search(index.weights(text), count, where=call.values["filter"])
        record.search_seconds = (record.search_seconds or 0.0) + time.perf_counter() - began
        return matches
