"""The answers of two models to the same queries: `scripts/migrate NAME compare`.

An answer is known by its document, as chunks differ between models, or by its id where there are
none. The overlap of a query is the share of documents among both models' first ten answers.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from embedding_client import EmbeddingClient, FileError, Match, TextSource
from embedding_client.progress import progress_on

_TOP = 10
#: Candidates of a search; with them, `POST /search` answers.
_CANDIDATES = 50
#: Queries in the report: those with the lowest overlap.
_CHANGED = 20
#: Characters of an answer's text in the report.
_EXCERPT = 120
#: Queries that are printed.
_PRINTED = 3


def compare(clients: Sequence[tuple[str, EmbeddingClient]], source: TextSource) -> dict[str, Any]:
    """Ask both models each query in turn; return the report, for JSON.

    `clients` are of the function that answers and of the standby's, each with its model's name.
    """
    rows = list(source.rows())
    if rejected := next((row for row in rows if row.problem), None):
        raise FileError(f"{source.name}, {rejected.place}: {rejected.problem}")
    if not rows:
        raise FileError(f"{source.name} has no queries; allowed: 1 or more.")
    for _, client in clients:
        # The first request may meet a cold start.
        client.search(str(rows[0].text), top=_TOP, candidates=_CANDIDATES)
    queries: list[dict[str, Any]] = []
    milliseconds: list[list[float]] = [[] for _ in clients]
    with closing(progress_on(source.name, total=len(rows))) as progress:
        for row in rows:
            matches = []
            for (_, client), durations in zip(clients, milliseconds, strict=True):
                began = time.perf_counter()
                matches.append(client.search(str(row.text), top=_TOP, candidates=_CANDIDATES))
                durations.append(1000 * (time.perf_counter() - began))
            answers = [list(map(_excerpt, matches_of_model)) for matches_of_model in matches]
            queries.append({"query": row.text, "overlap": overlap(*matches), "answers": answers})
            progress.update(1)
    overlaps = [query["overlap"] for query in queries]
    return {
        "queries": len(rows),
        "overlap_mean": round(float(np.mean(overlaps)), 4),
        "overlap_lowest": min(overlaps),
        "models": [
            {"name": name}
            | {
                f"p{percent}_ms": round(float(np.percentile(durations, percent)), 1)
                for percent in (50, 95)
            }
            for (name, _), durations in zip(clients, milliseconds, strict=True)
        ],
        "overlaps": overlaps,
        "changed": sorted(queries, key=lambda query: query["overlap"])[:_CHANGED],
    }


def overlap(live: Sequence[Match], standby: Sequence[Match]) -> float:
    """Return the share of common documents, of those of the longer list; 1 for two empty ones."""
    documents = [{_document(match) for match in matches} for matches in (live, standby)]
    longest = max(map(len, documents))
    return round(len(set.intersection(*documents)) / longest, 4) if longest else 1.0


def _document(match: Match) -> str:
    return str(match.metadata.get("document", match.id))


def _excerpt(match: Match) -> str:
    return f"{_document(match)}: {' '.join((match.text or '').split())[:_EXCERPT]}"


def lines_of(report: dict[str, Any]) -> Iterator[str]:
    """Yield a report's lines, with the queries whose answers changed most."""
    yield f"{'queries':<12}{report['queries']:,}"
    mean, lowest = report["overlap_mean"], report["overlap_lowest"]
    yield f"{f'overlap@{_TOP}':<12}mean {mean:.2f}, lowest {lowest:.2f}"
    for letter, model in zip("AB", report["models"], strict=True):
        durations = f"p50 {model['p50_ms']:,} ms, p95 {model['p95_ms']:,} ms"
        yield f"{letter:<12}{model['name']}, {durations}"
    for query in report["changed"][:_PRINTED]:
        yield f"\n{query['overlap']:.2f}  {query['query']}"
        for letter, answers in zip("AB", query["answers"], strict=True):
            yield from (f"  {letter} {answer}" for answer in answers)
            yield ""
