"""Render the tables and the picture of the page about costs."""

from functools import cache

from embedding_costs.cold_starts import cold_start_share
from embedding_costs.duration import Speed, billed_seconds, core_seconds
from embedding_costs.forecast import TIMEOUTS
from embedding_costs.lambda_options import ON_DEMAND, PROVISIONED, LambdaUsage, on_demand
from embedding_costs.numbers import number, percent
from embedding_costs.options import Scenario, break_even, hosted
from embedding_costs.picture import as_svg
from embedding_costs.run import Choices, Run, run
from embedding_costs.simulated import lowest_share
from embedding_costs.simulation import sample
from embedding_costs.table import as_table
from embedding_costs.traffic import SHAPES, Traffic
from embedding_kit.environment import Environment
from embedding_kit.prices import LINES, hosted_models, load_prices

__all__ = ["cold_start_table", "draw", "example_table", "length_table", "price_table"]

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
    return run(environment, load_prices(), hosted_models(), Choices(requests=3e6))


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
                "Fargate, 1 vCPU, load balancer",
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


def price_table() -> str:
    """Return all prices of us-east-1 and of the hosted APIs, with their dates and sources."""
    rows = ["| price | US dollars | date | source |", "|---|---|---|---|"]
    for name, price in load_prices().lines.items():
        usd = f"{price.usd:.10f}".rstrip("0").rstrip(".")
        tiers = " (first tier)" if len(price.tiers) > 1 else ""
        rows.append(
            f"| `{name}`{tiers} | {usd} per {LINES[name].unit} | {price.date} | {price.source} |"
        )
    rows += [
        f"| {model.name} | {model.usd_per_million_tokens:g} per million tokens | {model.date} | "
        f"{model.source} |"
        for model in hosted_models()
    ]
    return "\n".join(rows)
