"""`POST /search`: from a query to ranked entries of the index, in one request.

The query is embedded, the index is searched wide, the lists of a dense and a sparse search become
one by their scores, and the reranker, where one is served, orders that. Fusion adds the scores of
an entry, each brought to 0 to 1 and weighed by `FUSION_WEIGHTS`: a convex combination, which S.
Bruch, S. Gai, A. Ingber found better than reciprocal ranks ("An Analysis of Fusion Functions for
Hybrid Retrieval", ACM TOIS 42, 2023). The best score of a list is 1. What is 0 is the lowest cosine
of a dense list, and no common token in a sparse one.

Imported on demand: only an endpoint with an index pays for it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from embedder.core.errors import InputError, InvalidFieldError
from embedder.core.search import IndexMatch, SearchIndex, passage
from embedder.http.apis.fields import TextType, truncate_field
from embedder.http.apis.native import DEFAULT_RESULTS, Native, Similar, filter_type, warnings_of
from embedder.http.apis.operation import Call, EmbeddingOperation, Operation, json_response
from embedder.http.http_types import Response
from embedder.http.json_types import Boolean, Choice, Field, Integer

if TYPE_CHECKING:
    from embedder.core.scorer import Scorer

#: The part that each list has in the fused score. Source: `python -m tools.questions`, where no
#: set lost by 0.7 to 0.9 for dense; with equal parts, or by ranks, questions lost 0.07.
FUSION_WEIGHTS = {"dense": 0.7, "sparse": 0.3}
#: Entries that each search returns by default, to be fused and ranked again.
DEFAULT_CANDIDATES = 50
_HYBRID = "hybrid"


class Candidate(NamedTuple):
    """An entry that a search found, with its place from 1 and its score in each list."""

    match: IndexMatch
    ranks: dict[str, int]
    #: Scores by the mode of the search, and that of `fused` or `rerank`, where it was.
    scores: dict[str, float]


class _StageTimes(dict[str, float]):
    """The milliseconds of each stage."""

    def __init__(self) -> None:
        super().__init__()
        self._last = time.perf_counter()

    def end(self, stage: str) -> None:
        """Add the time since the last end to a stage."""
        previous, self._last = self._last, time.perf_counter()
        self[stage] = self.get(stage, 0.0) + (self._last - previous) * 1000


class Search(EmbeddingOperation):
    """`{"query": …, "top_k": …}` → the entries of the index that answer the query best.

    `similar` searches the index, and its counterparts do in other modes. The reranker, if there is
    one, orders the candidates.
    """

    api = Native
    name = "search"
    more_statuses = (404,)
    summary = "Search the index; fuse and rerank what is found."

    def __init__(self, similar: Similar, reranker: Scorer | None) -> None:
        self._searches = {search.mode: search for search in similar.choices}
        self._reranker = reranker
        super().__init__(similar.model)

    def fields(self) -> tuple[Field, ...]:
        modes = [*self._searches]
        limits, index = self.engine.limits, self._index(modes[0])
        if len(modes) > 1 or index.text_characters:
            modes.append(_HYBRID)
        count = Integer(1, index.max_results)
        return (
            Field("query", TextType(limits.max_characters), "What is searched for.", required=True),
            Field(
                "top_k", count, "The largest number of entries to return.", default=DEFAULT_RESULTS
            ),
            Field(
                "candidates",
                count,
                "How many entries each search finds, to be fused and reranked. By default "
                f"{DEFAULT_CANDIDATES}, or top_k if that is more.",
            ),
            Field("filter", filter_type(index), "Which metadata an entry must have."),
            Field(
                "mode",
                Choice(tuple(modes)),
                "The kind of vectors to search; hybrid: both, fused by their scores.",
                # Words are offered, and a sparse encoder used.
                default=modes[0] if self.model.word_index or index.text_characters else modes[-1],
            ),
            Field(
                "rerank",
                Boolean(),
                "Whether the reranker orders the candidates.",
                default=self._reranker is not None,
            ),
            truncate_field(limits),
        )

    def respond(self, call: Call, /) -> Response:
        values = call.values
        top_k = values["top_k"]
        candidates = values["candidates"] or max(DEFAULT_CANDIDATES, top_k)
        if candidates < top_k:
            raise InvalidFieldError(
                f'"candidates" must be at least "top_k", {top_k}; found {candidates}.',
                field="candidates",
            )
        if values["rerank"] and self._reranker is None:
            raise InvalidFieldError(
                'This endpoint has no reranker: "rerank" must be false; found true.', field="rerank"
            )
        is_hybrid = values["mode"] == _HYBRID
        modes = [*self._searches] if is_hybrid else [values["mode"]]
        # An index that fuses the searches itself.
        with_words = is_hybrid and len(modes) == 1
        limit = self._index(modes[0]).text_characters
        if with_words and len(values["query"]) > limit:
            raise InvalidFieldError(
                f'With "mode": "hybrid", "query" must have up to {limit:,} characters; found '
                f"{len(values['query']):,}.",
                field="query",
            )
        times = _StageTimes()
        lists: dict[str, list[IndexMatch]] = {}
        warned: dict[str, Any] = {}
        for mode in modes:
            lists[mode] = self._found(mode, candidates, call, times, with_words=with_words)
            warned |= warnings_of(call.record.embeddings)
        ranked = fused(lists)[:candidates]
        if len(lists) > 1:
            times.end("fuse")
        reranker = self._reranker if values["rerank"] else None
        if reranker is not None:
            ranked = self._reranked(reranker, ranked, call)
            times.end("rerank")
        spaces = {mode: self._index(mode).vector_space for mode in modes}
        space = spaces[modes[0]]
        return json_response(
            {
                "results": [_result(candidate) for candidate in ranked[:top_k]],
                "vector_space": space,
                "sparse_space": spaces.get("sparse"),
                "score_space": None if reranker is None else reranker.manifest.space,
                "timings": {stage: round(spent, 3) for stage, spent in times.items()},
                **warned,
            },
            headers={"x-vector-space": space},
        )

    def _index(self, mode: str) -> SearchIndex:
        index = self._searches[mode].model.search_index
        assert index is not None  # noqa: S101 - for mypy: without an index this is not served
        return index

    def _found(
        self, mode: str, count: int, call: Call, times: _StageTimes, *, with_words: bool
    ) -> list[IndexMatch]:
        embed, search = ("embed", "index") if mode == "dense" else (mode, mode)
        matches = self._searches[mode].find(
            call,
            self._index(mode),
            call.values["query"],
            count,
            field="query",
            with_words=with_words,
            embedded=partial(times.end, embed),
        )
        times.end(search)
        return matches

    def _reranked(self, reranker: Scorer, ranked: list[Candidate], call: Call) -> list[Candidate]:
        """Return the candidates by the reranker's scores; equal ones stay in their order."""
        if not ranked:
            return ranked
        try:
            scores = reranker.predict(
                [(call.values["query"], _passage(candidate)) for candidate in ranked],
                # As Cohere's API: the end of a text that does not fit is cut, never the query.
                truncate="passage",
                deadline=call.request.deadline,
            )
        except InputError as error:
            if error.position is None:
                raise error.named("query", field="query") from None
            raise InvalidFieldError(
                f"The entry {ranked[error.position].match.id!r} of the index has no text that the "
                'reranker can read: "rerank" must be false; found true.',
                field="rerank",
            ) from None
        # The record has the work of one model; this is most of it.
        call.record.embeddings = scores.work
        best = scores.best_first()
        for position, score in best:
            ranked[position].scores["rerank"] = score
        return [ranked[position] for position, _ in best]


def operation(routes: Mapping[str, Mapping[str, Operation]]) -> Search:
    """Make the operation from those by path and method, among which is `POST /similar`."""
    similar, rerank = routes["/similar"]["POST"], routes.get("/rerank", {}).get("POST")
    assert isinstance(similar, Similar)  # noqa: S101 - for mypy
    if rerank is None:
        return Search(similar, None)
    from embedder.http.apis.scores import ScoringOperation  # noqa: PLC0415 - on demand

    assert isinstance(rerank, ScoringOperation)  # noqa: S101 - for mypy
    return Search(similar, rerank.scorer)


def fused(lists: Mapping[str, Sequence[IndexMatch]]) -> list[Candidate]:
    """Return the entries of all lists, best first; one list stays as it is.

    Of equal sums, the entry of the earlier list, and in it of the better rank, is first.
    """
    candidates: dict[str, Candidate] = {}
    for mode, matches in lists.items():
        for rank, match in enumerate(matches, start=1):
            candidate = candidates.setdefault(match.id, Candidate(match, {}, {}))
            if match.scores:
                candidate.scores.update(match.scores)
                continue
            candidate.ranks[mode] = rank
            candidate.scores[mode] = match.score
    if len(lists) == 1:
        return [*candidates.values()]
    bounds = {mode: _bounds(mode, matches) for mode, matches in lists.items() if matches}
    for candidate in candidates.values():
        candidate.scores["fused"] = sum(
            FUSION_WEIGHTS[mode] * (score - bounds[mode][0]) / (bounds[mode][1] - bounds[mode][0])
            for mode, score in candidate.scores.items()
        )
    return sorted(candidates.values(), key=lambda candidate: -candidate.scores["fused"])


def _bounds(mode: str, matches: Sequence[IndexMatch]) -> tuple[float, float]:
    """Return the scores that count as 0 and as 1."""
    best, lowest = matches[0].score, matches[-1].score if mode == "dense" else 0.0
    # Equal scores all count as 1.
    return (lowest if lowest < best else best - 1), best


def _result(candidate: Candidate) -> dict[str, Any]:
    match = candidate.match
    return {
        "text": match.text,
        # As `[ingest]` writes them.
        "source": _text(match.metadata.get("document")),
        "heading": _text(match.metadata.get("headings")),
        # The stage that ordered the entries is the last one.
        "score": [*candidate.scores.values()][-1],
        "scores": candidate.scores,
        "ranks": candidate.ranks,
        "id": match.id,
        "index": match.position,
        "metadata": {**match.metadata},
    }


def _passage(candidate: Candidate) -> str:
    return passage(candidate.match.text or "", candidate.match.metadata)


def _text(value: Any) -> str | None:
    """Return a text; None of metadata of another type, which is not the kit's own."""
    return value if isinstance(value, str) else None


#: Path → method → operation, of an endpoint with an index.
ROUTES: dict[str, dict[str, type[Search]]] = {"/search": {"POST": Search}}
