"""Render the tables of the page about costs."""

from functools import cache
from pathlib import Path
from typing import Any

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.environment_file import load_environment
from embedding_kit.prices import hosted_models, load_prices
from operations.cost.forecast import TIMEOUTS, Forecast, as_table, forecast, number, percent
from operations.cost.ways import ON_DEMAND, PROVISIONED, Scenario, break_even, usd, ways
from operations.cost.workload import (
    MONTH_SECONDS,
    VCPU_MB,
    Month,
    Speed,
    billed_seconds,
    cold_start_share,
    core_seconds,
)
from tools.cost import resources_of

_ROOT = Path(__file__).resolve().parents[1]
_FARGATE = "Fargate, 1 vCPU, load balancer"
_EC2 = "EC2 t4g.small, load balancer"
#: Items of a bill without a request.
_STANDING = (
    "CloudWatch alarms, by metrics",
    "composite alarm",
    "dashboard",
    "SNS topic's KMS key",
    "image",
)

#: EmbeddingGemma's times on idle cores, from docs/performance.md.
_IDLE = Speed(
    points=((8, 9.9), (32, 16.9), (128, 49.6), (512, 261.0), (2048, 1668.0)),
    source="docs/performance.md",
)


def _run(environment: EnvironmentSettings, month: Month) -> Forecast:
    return forecast(environment, resources_of, load_prices(), hosted_models(), month)


@cache
def example_table() -> str:
    """Return the output of the command for `staging`, which is on demand."""
    environment = load_environment("staging", folder=_ROOT / "environments", licensed=False)
    return f"```\n{as_table(_run(environment, Month(requests=3e6)))}\n```"


def length_table() -> str:
    """Return dollars for a million requests by their length, and break-even points."""
    prices, priced = load_prices(), ways(hosted_models())
    shown = (ON_DEMAND, "OpenAI text-embedding-3-small", "OpenAI text-embedding-3-large")
    rows = [
        (
            "| tokens | ms | Lambda on demand | OpenAI 3-small, Titan V2 | OpenAI 3-large | "
            "dearer than two t4g.small | than Fargate | than provisioned |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for tokens, _ in _IDLE.points:
        core = core_seconds(_IDLE, tokens)
        scenario = Scenario(month=Month(tokens=tokens), core_seconds=core, memory_mb=VCPU_MB)
        points = (
            break_even(prices, scenario, priced[ON_DEMAND], priced[name])
            for name in (_EC2, _FARGATE, PROVISIONED)
        )
        cells = [
            f"{tokens:,}",
            f"{1000 * scenario.seconds:.0f}",
            *(f"${usd(priced[name](prices, scenario)):.2f}" for name in shown),
            *("never" if point is None else f"from {number(point)}" for point in points),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def cold_start_table() -> str:
    """Return the share of requests that meet a cold start, by requests a month."""
    seconds = billed_seconds(core_seconds(_IDLE, 128), memory_mb=VCPU_MB)
    columns = [f"idle timeout of {minutes} minutes" for minutes in TIMEOUTS]
    rows = [f"| requests a month | {' | '.join(columns)} |", "|---|---|---|"]
    for requests in (1e4, 1e5, 1e6, 1e7, 1e8):
        month = Month(requests=requests)
        shares = (
            cold_start_share(month, seconds=seconds, timeout=60.0 * minutes) for minutes in TIMEOUTS
        )
        rows.append(f"| {number(requests)} | {' | '.join(map(percent, shares))} |")
    return "\n".join(rows)


def server_table() -> str:
    """Return what the ways to serve `dev` cost, and the traffic from which each costs less."""
    dev = load_environment("dev", folder=_ROOT / "environments")
    result, short = (_run(dev, Month(requests=3e6, tokens=tokens)) for tokens in (128, 16))
    rows = ["| | US dollars a month | break-even with Lambda on demand |", "|---|---|---|"]
    for name in (ON_DEMAND, PROVISIONED, _FARGATE, "Lambda Managed Instances, c7g.large"):
        point, of_short = result.break_even.get(name), short.break_even.get(name)
        cell = "" if name == ON_DEMAND else "never"
        if point is not None and of_short is not None:
            cell = (
                f"{number(point)} requests, {point / MONTH_SECONDS:.0f} a second; "
                f"{number(of_short)} of 16 tokens"
            )
        rows.append(f"| {name} | {usd(result.options[name]):.2f} | {cell} |")
    return "\n".join(rows)


def standing_table() -> str:
    """Return what an environment costs without a request, by what is watched."""
    rows = [
        "| setting | alarms | dashboard | topic's key | image | sum | with the free tier |",
        "|---|---|---|---|---|---|---|",
    ]
    variants: dict[str, dict[str, Any]] = {
        '`watch = "essential"`': {"observability": {"watch": "essential"}},
        '`watch = "full"`, the default': {},
        '`watch = "full"`, with `emails`': {"alarms": {"emails": ["ops@example.com"]}},
    }
    for name, tables in variants.items():
        rows.append(f"| {name} | {' | '.join(_standing(tables))} |")
    return "\n".join(rows)


def _standing(tables: dict[str, Any]) -> list[str]:
    model = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
    environment = EnvironmentSettings.model_validate({"name": "example", "model": model, **tables})
    result = _run(environment, Month())
    cost, free = (
        {item.name: item.usd for item in items if item.name in _STANDING}
        for items in (result.added, result.free)
    )
    alarms, composite, *rest = (cost.get(name, 0) for name in _STANDING)
    whole = sum(cost.values())
    columns = (alarms + composite, *rest, whole, whole + sum(free.values()))
    return [f"${dollars:.2f}" for dollars in columns]
