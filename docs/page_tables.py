"""Render the tables of the pages: costs, the known models, and what was measured on AWS."""

import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from statistics import median
from textwrap import fill
from typing import Any

from speed_tables import gemma_speed

from embedding_client.models import cells
from embedding_kit.prices import hosted_models, load_prices
from model_compiler.source.catalog import BENCHMARKS, CATALOG, CatalogEntry, described, measurements
from operations.cost.alternatives import (
    FARGATE,
    ON_DEMAND,
    PROVISIONED,
    Scenario,
    alternatives,
    break_even,
    usd,
)
from operations.cost.forecast import IDLE_SECONDS, Forecast, as_table, forecast, number, percent
from operations.cost.workload import (
    MONTH_SECONDS,
    VCPU_MB,
    Month,
    billed_seconds,
    cold_start_share,
    core_seconds,
)
from stacks.environment import EnvironmentSettings
from stacks.environment_file import load_environment
from tools.cost import resources_of
from tools.prove.measure import LENGTHS, SIZES

#: The files of environments/ as the kit ships them. Those are the user's to edit.
_SHIPPED = Path(__file__).resolve().parents[1] / "tests" / "fixtures" / "environments"
_HOSTED = "OpenAI text-embedding-3-small"
#: Items of a bill without a request.
_STANDING = (
    "CloudWatch alarms, by metrics",
    "composite alarm",
    "dashboard",
    "SNS topic's KMS key",
    "image",
)

#: EmbeddingGemma's times on idle cores.
_IDLE = gemma_speed()


def _table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Return a table with a row for each list of cells."""
    rule = "|---" * (head.count("|") - 1) + "|"
    return "\n".join([head, rule, *(f"| {' | '.join(row)} |" for row in rows)])


def _run(environment: EnvironmentSettings, month: Month) -> Forecast:
    return forecast(environment, resources_of, load_prices(), hosted_models(), month)


@cache
def _shipped(name: str, requests: float) -> Forecast:
    environment = load_environment(name, folder=_SHIPPED, licensed=False)
    return _run(environment, Month(requests=requests))


def example_table() -> str:
    """Return the output of the command for `staging`, which is on demand."""
    return f"```text\n{as_table(_shipped('staging', 3e6))}\n```"


def first_line() -> str:
    """Return the command for `dev`, and the first line of its output."""
    line = as_table(_shipped("dev", 1e6)).partition("\n")[0]
    return f"```bash\nscripts/cost dev\n```\n\n```text\n{line}\n…\n```"


def bills_list() -> str:
    """Return what the shipped environments cost a month, with requests of 128 tokens."""
    idle, dev = (_shipped("dev", requests).usd for requests in (0, 1e6))
    staging, production = (_shipped(name, 3e6) for name in ("staging", "production"))
    own, hosted = (usd(staging.bills[name]) for name in (ON_DEMAND, _HOSTED))
    text = f"""\
`dev`, MiniLM: **${idle:.2f}** without requests, **${dev:.2f}** with a million.
`staging`, EmbeddingGemma on demand: **${staging.usd:.2f}** with 3 million, of which ${own:.2f} are
for Lambda, the rest for monitoring. {_HOSTED} costs ${hosted:.2f}.
`production`, EmbeddingGemma, 2–5 Lambda environments kept warm: **${production.usd:.2f}** with 3
million."""
    bullets = re.split(r"\n(?=`)", text)
    return "\n".join(fill(f"- {bullet}", 120, subsequent_indent="  ") for bullet in bullets)


def metrics_line() -> str:
    """Return what the custom metrics of `dev` cost."""
    (item,) = (item for item in _shipped("dev", 1e6).added if item.unit == "metric-month")
    return (
        f"**What is easy to forget.** {item.amount:g} custom metrics with one version, API and "
        f"status cost ${item.usd:.2f} a month. Also:"
    )


def length_table() -> str:
    """Return dollars for a million requests by their length, and break-even points."""
    prices, priced = load_prices(), alternatives(hosted_models())
    shown = (ON_DEMAND, _HOSTED, "OpenAI text-embedding-3-large")
    head = (
        "| tokens | ms | Lambda on demand | OpenAI 3-small, Titan V2 | OpenAI 3-large | "
        "dearer than Fargate | than provisioned |"
    )
    rows = []
    for tokens, _ in _IDLE.points:
        core = core_seconds(_IDLE, tokens)
        scenario = Scenario(month=Month(tokens=tokens), core_seconds=core, memory_mb=VCPU_MB)
        points = (
            break_even(prices, scenario, priced[ON_DEMAND], priced[name])
            for name in (FARGATE, PROVISIONED)
        )
        rows.append(
            [
                f"{tokens:,}",
                f"{1000 * scenario.seconds:,.0f}",
                *(f"${usd(priced[name](prices, scenario)):.2f}" for name in shown),
                *("never" if point is None else f"from {number(point)}" for point in points),
            ]
        )
    return _table(head, rows)


def cold_start_table() -> str:
    """Return the share of requests that meet a cold start, by requests a month."""
    seconds = billed_seconds(core_seconds(_IDLE, 128), memory_mb=VCPU_MB)
    rows = []
    for requests in (1e4, 1e5, 1e6, 1e7, 1e8):
        month = Month(requests=requests)
        share = cold_start_share(month, seconds=seconds, timeout=IDLE_SECONDS)
        rows.append([number(requests), percent(share)])
    return _table("| requests a month | meet a cold start |", rows)


def server_table() -> str:
    """Return what the ways to serve `dev` cost, and the traffic from which each costs less."""
    dev = load_environment("dev", folder=_SHIPPED)
    result, short = (_run(dev, Month(requests=3e6, tokens=tokens)) for tokens in (128, 16))
    rows = []
    for name in (ON_DEMAND, PROVISIONED, FARGATE):
        point, of_short = result.break_even.get(name), short.break_even.get(name)
        cell = "" if name == ON_DEMAND else "never"
        if point is not None and of_short is not None:
            cell = (
                f"{number(point)} requests, {point / MONTH_SECONDS:.0f} a second; "
                f"{number(of_short)} of 16 tokens"
            )
        rows.append([name, f"{usd(result.bills[name]):.2f}", cell])
    return _table("| | US dollars a month | break-even with Lambda on demand |", rows)


def standing_table() -> str:
    """Return what an environment costs without a request, by what is watched."""
    variants: dict[str, dict[str, Any]] = {
        '`watch = "essential"`': {"observability": {"watch": "essential"}},
        '`watch = "full"`, the default': {},
        '`watch = "full"`, with `emails`': {"alarms": {"emails": ["ops@example.com"]}},
    }
    return _table(
        "| setting | alarms | dashboard | topic's key | image | sum |",
        ([name, *_standing(tables)] for name, tables in variants.items()),
    )


def _standing(tables: dict[str, Any]) -> list[str]:
    model = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
    environment = EnvironmentSettings.model_validate({"name": "example", "model": model, **tables})
    added = _run(environment, Month()).added
    cost = {item.name: item.usd for item in added if item.name in _STANDING}
    alarms, composite, *other_costs = (cost.get(name, 0) for name in _STANDING)
    columns = (alarms + composite, *other_costs, sum(cost.values()))
    return [f"${dollars:.2f}" for dollars in columns]


_COLUMNS = (
    "model",
    "languages",
    "dimensions",
    "tokens",
    "MB",
    "memory",
    "32",
    "256",
    "search",
    "many",
    "license",
)


def models_table() -> str:
    """Return the table of all models, and where its numbers come from."""
    return "\n".join([*_rows(), "", *_sources()])


def prompts_table() -> str:
    """Return a table of the different sets of prompts, with the models that have them."""
    sets: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for entry in CATALOG:
        prompts = {**entry.own_prompts, **entry.prompts}
        if prompts:
            sets.setdefault(tuple(prompts.items()), []).append(entry.short_name)
    rows = []
    for requirement, names in sets.items():
        texts = "<br>".join(f"{name}: {_code(text)}" for name, text in requirement)
        rows.append([", ".join(names), texts])
    return _table("| models | prompts |", rows)


def _rows() -> Iterator[str]:
    """Yield the lines of the table, without spaces: its source is not for reading."""
    yield _row(_COLUMNS)
    yield _row(["---"] * len(_COLUMNS))
    group = ""
    for entry in CATALOG:
        if entry.group != group:
            group = entry.group
            yield _row([f"**{group}**", *[""] * (len(_COLUMNS) - 1)])
        yield _row(_cells(entry))


def _row(row: Iterable[str]) -> str:
    return f"|{'|'.join(row)}|"


def _cells(entry: CatalogEntry) -> Iterator[str]:
    facts = described(entry)
    shown = cells(facts)
    star = "*" if entry.pin == "unverified" else ""
    yield f"[{entry.short_name}](https://huggingface.co/{entry.name}){star}"
    yield entry.languages
    smallest = f"–{entry.dimensions[-1]}" if len(entry.dimensions) > 1 else ""
    yield f"{shown.pop('dims')}{smallest}"
    yield shown.pop("tokens")
    yield shown.pop("MB")
    memory = [f"{mb:,}" for mb in dict.fromkeys((facts["memory_mb"] or {}).values())]
    yield "–".join(memory[:: len(memory) - 1] if len(memory) > 1 else memory) or shown["memory"]
    del shown["memory"]
    yield from shown.values()
    yield entry.license.name


def _sources() -> Iterator[str]:
    measured = measurements()
    times = measured.milliseconds
    yield (
        f"all-MiniLM-L6-v2 took {times['tokens_32']:.1f} ms for 32 tokens and "
        f"{times['tokens_256']:.1f} ms for 256: {measured.machine}."
    )
    for name, key in (("search", "retrieval"), ("many", "multilingual")):
        facts = BENCHMARKS[key]
        yield f"{name.capitalize()}: {facts.title}, {facts.about}; {facts.source}, {facts.date}."


def _code(text: str) -> str:
    """Return a text as code in a table's cell."""
    if not text:
        return "no prompt"
    return f"`{text}`".replace("\n", "\\n").replace("|", "\\|")


_FILE = Path(__file__).with_name("measured-on-aws.json")
_FIRST = "first request after it"
#: Steps that not every environment has: the key of their values, and what they measure.
_OTHERS = {
    ("restores", "restore_ms"): "SnapStart restore",
    ("provisioned", "init_ms"): "start of a provisioned environment",
    ("search", "ms"): "search of 8 tokens",
}


def measured_table(file: Path = _FILE) -> str:
    """Return a table for each measured environment; before the first, what will be measured."""
    if not file.exists():
        return _unmeasured()
    measured: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return "\n\n".join("\n".join(_environment(*item)) for item in measured.items())


def _unmeasured() -> str:
    sizes = " and ".join(f"{size:,}" for size in SIZES)
    lengths = ", ".join(map(str, LENGTHS))
    return (
        f"Not measured yet. `scripts/prove` will measure at {sizes} MB: start, {_FIRST}, requests "
        f"of {lengths} tokens and of the model's limit, also for a caller, "
        f"{', '.join(_OTHERS.values())}."
    )


def _environment(name: str, found: dict[str, Any]) -> Iterator[str]:
    sizes, callers = [found[f"memory {size}"] for size in SIZES], found["callers"]
    yield (
        f"`{name}`: {found['model']} in {found['region']}, {found['date']}. Medians in "
        "milliseconds, in brackets the least and the most."
    )
    yield ""
    rows = [
        ["start", *(_cell(size, "init_ms") for size in sizes), "–"],
        [_FIRST, *(_cell(size, "first_ms") for size in sizes), "–"],
    ]
    groups = [column.get("requests") for column in (*sizes, callers)]
    for n in range(max((len(group) for group in groups if group), default=0)):
        tokens = max(group[n]["tokens"] for group in groups if group)
        times = [
            _cell(group[n], "ms") if group else _refused(column)
            for column, group in zip((*sizes, callers), groups, strict=True)
        ]
        rows.append([f"{tokens:,} tokens", *times])
    columns = [*(f"{size:,} MB" for size in SIZES), f"for a caller, {found['memory_mb']:,} MB"]
    yield _table(f"|  | {' | '.join(columns)} |", rows)
    for (step, key), text in _OTHERS.items():
        if step in found:
            yield ""
            yield f"{len(found[step][key])} × {text}: {_cell(found[step], key)}."


def _cell(found: dict[str, Any], key: str) -> str:
    values = found.get(key)
    if not values:
        return _refused(found)
    return f"{median(values):,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def _refused(found: dict[str, Any]) -> str:
    return f"refused: {found['refused']}" if "refused" in found else "–"
