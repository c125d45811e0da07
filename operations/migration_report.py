"""The answers of two models to the same queries: `scripts/migrate NAME compare`.

An answer is known by its document, as chunks differ between models, or by its id where there are
none. The overlap of a query is the share of documents among both models' first ten answers.
"""

import html
import io
import json
import re
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import style
from matplotlib.figure import Figure

from embedding_client._client import EmbeddingClient
from embedding_client._errors import FileError
from embedding_client._progress import progress_on
from embedding_client._protocol import Match
from embedding_client._readers import Source

_TOP = 10
#: Candidates of a search; with them, `POST /search` answers.
_CANDIDATES = 50
_CHANGED = 20
_SHOWN_TEXT = 120
_COLORS = ("#3b82f6", "#e07b39")
_PAGE = """<!doctype html><meta charset="utf-8"><title>{title}</title><style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ border-bottom: 1px solid #8884; padding: .4rem; text-align: left; vertical-align: top; }}
svg {{ max-width: 100%; height: auto; }}
</style><h1>{title}</h1>{body}"""


@dataclass(frozen=True, slots=True)
class Asked:
    """One of the two models: its name, where it answers, and its price."""

    name: str
    client: EmbeddingClient
    #: US dollars for a million queries.
    price: float
    milliseconds: list[float] = field(default_factory=list)

    def search(self, query: str) -> list[Match]:
        """Search, and note the time."""
        began = time.perf_counter()
        found = self.client.search(query, top=_TOP, candidates=_CANDIDATES)
        self.milliseconds.append(1000 * (time.perf_counter() - began))
        return found


def compare(one: Asked, other: Asked, source: Source) -> dict[str, Any]:
    """Ask both models each query in turn; return the report, for JSON."""
    rows = list(source.rows())
    if problem := next((row for row in rows if row.problem), None):
        raise FileError(f"{source.name}, {problem.place}: {problem.problem}")
    if not rows:
        raise FileError(f"{source.name} has no queries; allowed: 1 or more.")
    sides = (one, other)
    for side in sides:
        # The first request may meet a cold start.
        side.client.search(str(rows[0].text), top=_TOP, candidates=_CANDIDATES)
    queries: list[dict[str, Any]] = []
    with closing(progress_on(source.name, total=len(rows))) as shown:
        for row in rows:
            found = [side.search(str(row.text)) for side in sides]
            lists = [list(map(_shown, matches)) for matches in found]
            queries.append({"query": row.text, "overlap": overlap(*found), "answers": lists})
            shown.update(1)
    overlaps = [query["overlap"] for query in queries]
    return {
        "queries": len(rows),
        "overlap_mean": round(float(np.mean(overlaps)), 4),
        "overlap_lowest": min(overlaps),
        "models": [
            {
                "name": side.name,
                "p50_ms": round(float(np.percentile(side.milliseconds, 50)), 1),
                "p95_ms": round(float(np.percentile(side.milliseconds, 95)), 1),
                "usd_per_million": round(side.price, 2),
            }
            for side in sides
        ],
        "overlaps": overlaps,
        "changed": sorted(queries, key=lambda query: query["overlap"])[:_CHANGED],
    }


def overlap(one: Sequence[Match], other: Sequence[Match]) -> float:
    """Return the share of common documents, of those of the longer list; 1 for two empty ones."""
    first, second = ({_identity(match) for match in matches} for matches in (one, other))
    most = max(len(first), len(second))
    return round(len(first & second) / most, 4) if most else 1.0


def _identity(match: Match) -> str:
    return str(match.metadata.get("document", match.id))


def _shown(match: Match) -> str:
    return f"{_identity(match)}: {' '.join((match.text or '').split())[:_SHOWN_TEXT]}"


def print_report(report: dict[str, Any], *, page: Path | None, as_json: bool) -> None:
    """Print a report, and write it as a page if one is named."""
    if page:
        page.write_text(_page(report), encoding="utf-8")
    if as_json:
        print(json.dumps(report, ensure_ascii=False))
        return
    for name, value in _summary(report):
        print(f"{name:<12}{value}")
    for query in report["changed"][:3]:
        print(f"\n{query['overlap']:.2f}  {query['query']}")
        for name, answers in zip("AB", query["answers"], strict=True):
            print("".join(f"  {name} {answer}\n" for answer in answers), end="")


def _summary(report: dict[str, Any]) -> list[tuple[str, str]]:
    mean, lowest = report["overlap_mean"], report["overlap_lowest"]
    rows = [
        ("queries", f"{report['queries']:,}"),
        (f"overlap@{_TOP}", f"mean {mean:.2f}, lowest {lowest:.2f}"),
    ]
    for letter, model in zip("AB", report["models"], strict=True):
        times = f"p50 {model['p50_ms']} ms, p95 {model['p95_ms']} ms"
        price = f"${model['usd_per_million']:,.2f} for a million queries"
        rows.append((letter, f"{model['name']}: {times}, {price}"))
    return rows


def _page(report: dict[str, Any]) -> str:
    """Return a page without links, in the reader's light or dark scheme."""
    rows = "".join(
        f"<tr><th>{html.escape(name)}<td>{html.escape(value)}" for name, value in _summary(report)
    )
    changed = ""
    for query in report["changed"]:
        lists = "".join(
            f"<td><ol>{''.join(f'<li>{html.escape(answer)}' for answer in answers)}</ol>"
            for answers in query["answers"]
        )
        changed += f"<tr><td>{query['overlap']:.2f}<td>{html.escape(query['query'])}{lists}"
    body = (
        f"<table>{rows}</table>{_picture(report)}<h2>Changed most</h2>"
        f"<table><tr><th>overlap<th>query<th>A<th>B{changed}</table>"
    )
    return _PAGE.format(title="Two models, the same queries", body=body)


@style.context("default")
def _picture(report: dict[str, Any]) -> str:
    figure = Figure(figsize=(10, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.hist(
        report["overlaps"], bins=np.linspace(-0.05, 1.05, _TOP + 2).tolist(), color=_COLORS[0]
    )
    left.set(xlabel=f"overlap@{_TOP}", ylabel="queries")
    for place, model in enumerate(report["models"]):
        times = [model["p50_ms"], model["p95_ms"]]
        right.barh([place - 0.2, place + 0.2], times, 0.35, color=_COLORS[place])
        for offset, name, value in zip((-0.2, 0.2), ("p50", "p95"), times, strict=True):
            right.text(value, place + offset, f" {name} {value} ms", va="center")
    right.set(yticks=[0, 1], yticklabels=["A", "B"], xlabel="milliseconds of a request")
    right.set_xlim(right=1.3 * max(model["p95_ms"] for model in report["models"]))
    right.invert_yaxis()
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    svg = file.getvalue()
    # Black is the reader's color of text.
    return re.sub(r"#000000", "currentColor", svg[svg.index("<svg") :])
