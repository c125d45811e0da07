"""Render what `scripts/bench` measured as tables and sentences of the pages."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from operator import itemgetter
from pathlib import Path
from textwrap import fill
from typing import Any

from operations.cost.workload import Speed
from tools.bench.arm64_emulator import PROCESSORS
from tools.bench.report import KIT, PLAIN, as_table, from_json

_FOLDER = Path(__file__).parent
GEMMA, MINILM = "embeddinggemma-300m", "all-MiniLM-L6-v2"
_BEST = "best of the others"
#: The length of a line of a page.
_WIDTH = 120
#: What the pages call the models.
_MODELS: Mapping[str, str] = {MINILM: "MiniLM", GEMMA: "EmbeddingGemma’s shape"}
#: Rows of a count on ARM64 → their columns.
_COUNTED: Mapping[str, str] = {
    "start": "start",
    "8 tokens": "8 tokens",
    "32 tokens": "32",
    "128 tokens": "128",
    "512 tokens": "512",
    "64 texts of 8 tokens": "64 × 8",
}
#: The run that is counted by operator, and the least share of an operator that is named.
_BY_OPERATOR, _LEAST_SHARE = "128 tokens", 0.01
#: What the table of the server shows; its picture has more.
_LOADS = ("short texts, 1 client", "short texts, 64 clients", "mixed texts, 1 client",
          "mixed texts, 64 clients", "start to ready", "memory after the load")  # fmt: skip


def _runs(file: str = "performance.json") -> dict[str, Any]:
    """Return the runs of models by their names."""
    results: dict[str, Any] = json.loads((_FOLDER / file).read_text("utf-8"))
    return results


def model_table(name: str) -> str:
    """Return the machine of a model's run, its table, and how it was measured."""
    return _compact(as_table(*from_json(json.dumps(_runs()[name]))))


#: Sentences with numbers of EmbeddingGemma's run: a page → patterns, and the numbers between their
#: groups: a row, Embedding Kit or the best of the others, and a format.
_SENTENCES: Mapping[str, Mapping[str, Sequence[tuple[str, str, str]]]] = {
    "README.md": {
        r"(starts in )[\d,]+( ms)": [("init", KIT, ",.0f")],
        r"(deployments takes )[\d,]+( )": [("init", _BEST, ",.0f")],
        r"(peaks at )[\d,]+( MB, the best of the others at )[\d,]+(\.)": [
            ("peak memory", KIT, ",.0f"),
            ("peak memory", _BEST, ",.0f"),
        ],
        r"(512 tokens takes\s+)[\d,]+( ms; with the best of the others,\s+)[\d,]+( ms)": [
            ("512 tokens", KIT, ",.0f"),
            ("512 tokens", _BEST, ",.0f"),
        ],
        r"(each takes\s+)[\d.]+( ms; with the best of the\s+others,\s+)[\d.]+( ms)": [
            ("64 texts of 8 tokens, each", KIT, ".1f"),
            ("64 texts of 8 tokens, each", _BEST, ".1f"),
        ],
    },
    "docs/performance.md": {r"(cold start: )[\d,]+( ms)": [("init", KIT, ",.0f")]},
}


def with_numbers(text: str, page: str) -> str:
    """Return a page whose sentences have the numbers of the run."""
    values = {row["name"]: dict(row["values"]) for row in _runs()[GEMMA]["rows"]}
    for by_contender in values.values():
        by_contender[_BEST] = min(by_contender[name] for name in by_contender.keys() - {KIT, PLAIN})
    for pattern, numbers in _SENTENCES.get(page, {}).items():
        shown = [f"{values[row][contender]:{form}}" for row, contender, form in numbers]
        groups = [rf"\g<{group}>" for group in range(1, len(shown) + 2)]
        words = chain.from_iterable(zip_longest(groups, shown, fillvalue=""))
        text, count = re.subn(pattern, "".join(words), text)
        if not count:
            raise ValueError(f"{page} must have the sentence {pattern}; it has not")
    return text


def gemma_speed() -> Speed:
    """Return Embedding Kit's times of one text of EmbeddingGemma's shape, in milliseconds."""
    times = {row["name"]: row["values"][KIT] for row in _runs()[GEMMA]["rows"]}
    lengths = {name: re.fullmatch(r"(\d+) tokens", name) for name in times}
    return Speed(
        points=tuple((int(tokens[1]), times[name]) for name, tokens in lengths.items() if tokens),
        source="docs/performance.md",
    )


def server_table() -> str:
    """Return the table of the server, and its machine."""
    run, machine = from_json((_FOLDER / "server.json").read_text("utf-8"))
    shown = [replace(row, targets={}) for row in run.rows if row.name in _LOADS]
    return _compact(as_table(replace(run, rows=shown), machine))


def _compact(table: str) -> str:
    """Return a table as the other generated ones of the pages are written."""
    return re.sub(r" ?\| ?", "|", table)


def peers_that_win() -> str:
    """Return a line for each peer and model with the rows in which the peer needs less."""
    lines = []
    for model, title in _MODELS.items():
        run, _ = from_json(json.dumps(_runs()[model]))
        for peer in run.labels.keys() - {KIT, PLAIN}:
            ratios = {
                row.name: row.values[peer] / row.values[KIT]
                for row in run.rows
                if row.unit and peer in row.values and " after " not in row.name
            }
            rows = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio < 0.995]
            if rows:
                line = f"- {run.labels[peer]}, {title}: {', '.join(rows)}."
                lines.append(fill(line, _WIDTH, subsequent_indent="  "))
    return "\n".join(sorted(lines)) or "- None."


def counted_table() -> str:
    """Return the counts on ARM64: a row for each contender, and both processors in a cell."""
    head = ["millions, N1 / i8mm", *_COUNTED.values()]
    table = [head, ["---"] * len(head)]
    for model, counts in _counts().items():
        for contender, label in counts["labels"].items():
            cells = [
                " / ".join(
                    _millions(counts["values"].get(f"{row}, {cpu}", {}).get(contender))
                    for cpu in PROCESSORS
                )
                for row in _COUNTED
            ]
            table.append([f"{_MODELS[model]}, {label}", *cells])
    lines = [f"|{'|'.join(cells)}|" for cells in table]
    return "\n".join([*lines, "", *_shares()])


def _counts() -> dict[str, Any]:
    """Return the labels and, by row and contender, the values of each model."""
    runs = _runs("arm64.json")
    return {
        model: {
            "labels": runs[model]["labels"],
            "values": {row["name"]: row["values"] for row in runs[model]["rows"]},
        }
        for model in _MODELS
    }


def _shares() -> Iterator[str]:
    """Yield what the operators of MiniLM take, and the ratios of one text to its contenders."""
    counts = _counts()[MINILM]
    values, (cpu, *_) = counts["values"], PROCESSORS
    total = values[f"{_BY_OPERATOR}, {cpu}"][KIT]
    row = re.compile(rf"(\w+), {_BY_OPERATOR}, {cpu}")
    shares = {
        match[1]: by_contender[KIT]
        for name, by_contender in values.items()
        if (match := row.fullmatch(name)) and KIT in by_contender
    }
    named = ", ".join(
        f"`{operator}` {_millions(count)}"
        for operator, count in sorted(shares.items(), key=itemgetter(1), reverse=True)
        if count >= _LEAST_SHARE * total
    )
    yield f"Of MiniLM’s {_millions(total)} million for {_BY_OPERATOR} on {cpu}: {named}."
    yield "One text of MiniLM takes of a contender’s instructions:"
    yield ""
    for contender, label in counts["labels"].items():
        ratios = [
            by_contender[KIT] / by_contender[contender]
            for name, by_contender in values.items()
            if re.fullmatch(r"\d+ tokens, \w+", name) and contender in by_contender
        ]
        if contender != KIT:
            yield f"- {label}: {min(ratios):.2f} to {max(ratios):.2f}"


def _millions(count: float | None) -> str:
    return "–" if count is None else f"{count:,.0f}" if count >= 100 else f"{count:.1f}"
