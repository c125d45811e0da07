"""Render the tables and the picture of the page about costs."""

from functools import cache
from pathlib import Path
from typing import Any

from embedding_kit.environment import Environment
from embedding_kit.environment_file import load_environment
from embedding_kit.prices import LINES, Price, hosted_models, load_prices
from operations.cost.cold_starts import cold_start_share
from operations.cost.command import resources_of
from operations.cost.deployed import deployed_items, free_items
from operations.cost.duration import Speed, billed_seconds, core_seconds
from operations.cost.forecast import TIMEOUTS
from operations.cost.lambda_options import ON_DEMAND, PROVISIONED, LambdaUsage, on_demand
from operations.cost.numbers import number, percent
from operations.cost.options import Scenario, break_even, hosted
from operations.cost.picture import as_svg
from operations.cost.run import Choices, Run, run
from operations.cost.simulated import lowest_share
from operations.cost.simulation import sample
from operations.cost.table import as_table
from operations.cost.traffic import MONTH_SECONDS, SHAPES, Traffic

__all__ = [
    "cold_start_table",
    "draw",
    "example_table",
    "length_table",
    "price_table",
    "server_table",
    "standing_table",
]

_ROOT = Path(__file__).resolve().parents[1]
_FARGATE = "Fargate, 1 vCPU, load balancer"

#: EmbeddingGemma's times on idle cores, from docs/performance.md.
_IDLE = Speed(
    points=((8, 9.9), (32, 16.9), (128, 49.6), (512, 261.0), (2048, 1668.0)),
    source="docs/performance.md",
)
_MEMORY_MB = 1769


@cache
def _example() -> Run:
    """Forecast an environment with the defaults of all settings."""
    model = {"name": "google/embeddinggemma-300m", "accept_license": "gemma"}
    environment = Environment.model_validate({"name": "example", "model": model})
    return _run(environment, Choices(requests=3e6))


def _run(environment: Environment, choices: Choices) -> Run:
    return run(environment, resources_of, load_prices(), hosted_models(), choices)


def example_table() -> str:
    """Return the output of the command for an example."""
    result = _example()
    return f"```\n{as_table(result.forecast, speed=result.speed)}```"


def draw() -> str:
    """Return the picture of the example."""
    return as_svg(_example().forecast, hosted_models())


def length_table() -> str:
    """Return dollars for a million requests by their length, and break-even points."""
    prices, models = load_prices(), hosted_models()
    small, large = (
        next(model for model in models if model.model == f"text-embedding-3-{size}")
        for size in ("small", "large")
    )
    rows = [
        (
            "| tokens | ms | Lambda on demand | OpenAI 3-small, Titan V2 | OpenAI 3-large | "
            "dearer than two t4g.small | than Fargate | than provisioned |"
        ),
        "|---|---|---|---|---|---|---|---|",
    ]
    for tokens, _ in _IDLE.points:
        core = core_seconds(_IDLE, tokens)
        traffic = Traffic(requests=1e6, tokens=tokens, shape="diurnal", loads=SHAPES["diurnal"])
        scenario = Scenario(traffic=traffic, core_seconds=core, memory_mb=_MEMORY_MB)
        usage = LambdaUsage(requests=1e6, seconds=scenario.seconds, memory_mb=_MEMORY_MB)
        points = (
            break_even(prices, models, scenario, ON_DEMAND, name)
            for name in (
                "EC2 t4g.small, load balancer",
                _FARGATE,
                PROVISIONED,
            )
        )
        cells = [
            f"{tokens:,}",
            f"{1000 * scenario.seconds:.0f}",
            *(
                f"${option.usd:.2f}"
                for option in (
                    on_demand(prices, usage),
                    hosted(small, traffic),
                    hosted(large, traffic),
                )
            ),
            *("never" if point is None else f"from {number(point)}" for point in points),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


def cold_start_table() -> str:
    """Return the share of requests that meet a cold start, by requests a month."""
    seconds = billed_seconds(core_seconds(_IDLE, 128), memory_mb=_MEMORY_MB)
    short, long = TIMEOUTS
    columns = (f"last used, {short} minutes", f"last used, {long} minutes")
    rows = [
        f"| requests a month | {' | '.join(columns)} | idle longest, {long} minutes |",
        "|---|---|---|---|",
    ]
    for requests in (1e4, 1e5, 1e6, 1e7, 1e8):
        loads = SHAPES["diurnal"]
        shares = [
            cold_start_share(loads, requests=requests, seconds=seconds, timeout=60.0 * minutes)
            for minutes in TIMEOUTS
        ]
        drawn = sample(loads, requests=requests, seconds=seconds, most=100_000)
        shares.append(min(lowest_share(drawn), shares[1]))
        rows.append(f"| {number(requests)} | {' | '.join(map(percent, shares))} |")
    return "\n".join(rows)


def server_table() -> str:
    """Return what the ways to serve `dev` cost, and the traffic from which each costs less."""
    dev = load_environment("dev", folder=_ROOT / "environments")
    result, short = (
        _run(dev, Choices(requests=3e6, tokens=tokens)).forecast for tokens in (128, 16)
    )
    usd = {option.name: option.usd for option in result.options}
    rows = ["| | US dollars a month | break-even with Lambda on demand |", "|---|---|---|"]
    for name in (ON_DEMAND, PROVISIONED, _FARGATE, "Lambda Managed Instances, c7g.large"):
        point, of_short = result.break_even.get(name), short.break_even.get(name)
        cell = "" if name == ON_DEMAND else "never"
        if point is not None and of_short is not None:
            cell = (
                f"{number(point)} requests, {point / MONTH_SECONDS:.0f} a second; "
                f"{number(of_short)} of 16 tokens"
            )
        rows.append(f"| {name} | {usd[name]:.2f} | {cell} |")
    return "\n".join(rows)


def standing_table() -> str:
    """Return what an environment costs without a request, by what is watched."""
    rows = [
        "| setting | alarms | dashboard | topic's key | image | sum | with the free tier |",
        "|---|---|---|---|---|---|---|",
    ]
    told = {"emails": ["ops@example.com"]}
    variants: dict[str, dict[str, Any]] = {
        '`watch = "essential"`': {"observability": {"watch": "essential"}},
        '`watch = "full"`, the default': {},
        '`watch = "full"`, with `emails`': {"alarms": told},
    }
    for name, tables in variants.items():
        rows.append(f"| {name} | {' | '.join(_standing(tables))} |")
    return "\n".join(rows)


def _standing(tables: dict[str, Any]) -> list[str]:
    model = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
    environment = Environment.model_validate({"name": "example", "model": model, **tables})
    resources = resources_of(environment)
    items = deployed_items(environment, resources, load_prices())
    usd = {item.name: item.usd for item in items}
    whole = sum(usd.values())
    free = sum(item.usd for item in free_items(items, resources))
    alarms = usd["alarms, by metrics"] + usd.get("composite alarm", 0)
    columns = (alarms, usd["dashboard"], usd.get("key of the topic", 0), usd["image"])
    return [f"${amount:.2f}" for amount in (*columns, whole, whole + free)]


def price_table() -> str:
    """Return all prices of us-east-1 and of the hosted APIs, with their dates and sources."""
    rows = ["| price | US dollars | date | source |", "|---|---|---|---|"]
    for name, price in load_prices().lines.items():
        usd = _first_paid(price)
        tiers = " (first tier)" if sum(bool(tier.usd) for tier in price.tiers) > 1 else ""
        rows.append(
            f"| `{name}`{tiers} | {usd} per {LINES[name].unit} | {price.date} | {price.source} |"
        )
    rows += [
        f"| {model.name} | {model.usd_per_million_tokens:g} per million tokens | {model.date} | "
        f"{model.source} |"
        for model in hosted_models()
    ]
    return "\n".join(rows)


def _first_paid(price: Price) -> str:
    """Return a price in its first tier; after the free one, if it has such a tier."""
    free = sum(tier.end for tier in price.tiers if not tier.usd)
    paid = next(tier for tier in price.tiers if tier.usd)
    usd = f"{paid.usd:.10f}".rstrip("0").rstrip(".")
    return f"after {free:,.0f}, {usd}" if free else usd
