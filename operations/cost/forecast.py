"""A forecast of one environment's month, as values, text and JSON."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from typing import Any

from embedding_kit.prices import DEFAULT_REGION, HostedModel, Prices
from embedding_kit.settings import Provisioned, SnapStart
from operations.cost import CostError
from operations.cost.bill import FREE, Resource, added_items, free_items
from operations.cost.ways import (
    ON_DEMAND,
    PROVISIONED,
    SNAPSTART,
    Bill,
    Scenario,
    break_even,
    usd,
    ways,
)
from operations.cost.workload import (
    OVERHEAD_SECONDS,
    Month,
    Speed,
    cold_start_share,
    core_seconds,
    init_seconds,
    is_reranker,
    speed_of,
)
from stacks.environment import EnvironmentSettings

#: Minutes after which Lambda ends an idle environment. AWS does not say; others measured these.
TIMEOUTS = (5, 15)
#: Passages of a request to a reranker: the candidates of a search.
PASSAGES = 100
_WIDTH = 44
#: From so few requests a month on, another way costs less at any traffic.
_LEAST = 1e3
#: Prices older than this are likely to be wrong.
_OLD_DAYS = 180
UNITS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The result of the command.

    Attributes:
        speed: Where the times come from, in words.
        options: The bill of each way to serve by its name, in the table's order.
        chosen: The name of the environment's own way.
        added: Items that the environment's bill has besides its way.
        free: What CloudWatch's free tier takes off them, if nothing else of the account uses it.
        cold_starts: By the minutes after which an idle environment ends, the share of requests
            that meets a cold start on demand. The highest is billed.
        break_even: By a way's name, the requests a month from which the environment's own way
            costs more; None if it never does.
        notes: Warnings.
    """

    environment: EnvironmentSettings
    prices: Prices
    scenario: Scenario
    speed: str
    options: Mapping[str, Bill]
    chosen: str
    added: Bill
    free: Bill
    cold_starts: Mapping[int, float]
    break_even: Mapping[str, float | None]
    notes: Sequence[str]

    @property
    def usd(self) -> float:
        """US dollars a month: the environment's own way and what is added."""
        return usd((*self.options[self.chosen], *self.added))


def forecast(
    environment: EnvironmentSettings,
    synthesize: Callable[[EnvironmentSettings], Sequence[Resource]],
    prices: Prices,
    models: Sequence[HostedModel],
    month: Month,
) -> Forecast:
    """Forecast a month at the prices of a region.

    `synthesize` returns the resources of an environment's templates. It takes seconds, so it is
    called when nothing else can fail.
    """
    if is_reranker(environment.model):
        month = replace(month, passages=month.passages or PASSAGES)
    elif month.passages:
        raise CostError(
            f"--passages is of a reranker; found: {environment.model.name}; allowed: a "
            "cross-encoder's folder, or no --passages"
        )
    if month.milliseconds is None:
        speed = speed_of(environment.model)
        # A reranker reads each pair of its query and a passage.
        seconds = (month.passages or 1) * core_seconds(speed, month.tokens)
    else:
        speed = Speed(points=((month.tokens, month.milliseconds),), source="--milliseconds")
        seconds = month.milliseconds / 1000
    scenario = Scenario(
        month=month,
        core_seconds=seconds,
        memory_mb=environment.function.memory_mb,
        init_seconds=init_seconds(speed),
    )
    cold_start, chosen = environment.cold_start, ON_DEMAND
    if isinstance(cold_start, Provisioned):
        chosen = PROVISIONED
        scenario = replace(
            scenario,
            bounds=(cold_start.highest_minimum, cold_start.ceiling),
            target_utilization=cold_start.target_utilization,
        )
    elif isinstance(cold_start, SnapStart):
        chosen = SNAPSTART
    cold_starts = {
        minutes: cold_start_share(month, seconds=scenario.seconds, timeout=60.0 * minutes)
        for minutes in TIMEOUTS
    }
    scenario = replace(scenario, cold_share=max(cold_starts.values()))
    resources = synthesize(environment)
    added = added_items(environment, resources, prices, scenario)
    # The prices of hosted models are those of embeddings.
    all_ways = ways(() if month.passages else models)
    return Forecast(
        environment=environment,
        prices=prices,
        scenario=scenario,
        speed=speed.source,
        options={name: way(prices, scenario) for name, way in all_ways.items()},
        chosen=chosen,
        added=added,
        free=free_items(added, resources),
        cold_starts=cold_starts,
        break_even={
            name: break_even(prices, scenario, all_ways[chosen], way)
            for name, way in all_ways.items()
            if name != chosen and not name.startswith(f"{ON_DEMAND},")
        },
        notes=list(_notes(environment, speed, scenario)),
    )


def _notes(environment: EnvironmentSettings, speed: Speed, scenario: Scenario) -> Iterator[str]:
    tokens = scenario.month.tokens
    longest, _ = speed.points[-1]
    if tokens > longest:
        yield (
            f"warning: the longest measured text has {longest} tokens, and {tokens} are "
            "extrapolated; scripts/bench measures up to 2,048: --milliseconds MS"
        )
    if environment.model.precision == "fp32":
        yield (
            "warning: times are those of int8, and fp32 takes two to three times as long: "
            "--milliseconds MS"
        )
    if scenario.core_seconds + OVERHEAD_SECONDS > environment.function.timeout.total_seconds():
        yield "warning: a request takes longer than the function's timeout"


def as_table(result: Forecast) -> str:
    """Return the answer, the price of each way to serve, and the environment's own bill."""
    return "\n".join(
        (*_answer(result), "", *_ways(result), "", *_own(result), *_cold_starts(result))
    )


def _answer(result: Forecast) -> Iterator[str]:
    """Yield what most readers want to know: the sum, the cheapest other way, the break-even."""
    own = usd(result.options[result.chosen])
    yield (
        f"{result.environment.name} costs ${result.usd:,.2f} a month: ${own:,.2f} for requests, "
        f"${result.usd - own:,.2f} for the rest."
    )
    dollars, name = min((usd(result.options[name]), name) for name in result.break_even)
    yield f"Cheapest alternative for the requests: {name}, ${dollars:,.2f}."
    points = [(point, name) for name, point in result.break_even.items() if point is not None]
    if points:
        point, name = min(points)
        where = f"from {number(point)} requests a month" if point > _LEAST else "at any traffic"
        yield f"Break-even: {name} costs less {where}."
    else:
        yield "Break-even: none; no alternative costs less at any traffic."


def _ways(result: Forecast) -> Iterator[str]:
    environment, month = result.environment, result.scenario.month
    passages = f"{month.passages:,} pairs of " if month.passages else ""
    yield (
        f"{environment.name} in {result.prices.region}: {environment.model.name}, "
        f"{environment.function.memory_mb:,} MB"
    )
    yield (
        f"{number(month.requests)} requests a month of {passages}{month.tokens:,} tokens, "
        f"{month.shape}; {1000 * result.scenario.seconds:,.1f} ms each on Lambda"
    )
    yield f"times: {result.speed}"
    yield ""
    yield f"{'US dollars a month':{_WIDTH}}{'':>10}  cheaper from (requests)"
    for name, bill in result.options.items():
        after = "this environment" if name == result.chosen else _point(result, name)
        yield f"{_amount(name, usd(bill))}  {after}".rstrip()


def _own(result: Forecast) -> Iterator[str]:
    yield "This environment"
    free = {item.name for item in result.free}
    for item in (*result.options[result.chosen], *result.added):
        if item.usd:
            note = f"  {FREE[item.unit]} free in an account" if item.name in free else ""
            yield _amount(f"  {item.name}", item.usd) + note
    yield _amount("  sum", result.usd)
    if free:
        yield _amount("  sum, if nothing else uses what is free", result.usd + usd(result.free))
    if result.environment.budget and result.environment.budget.monthly_usd:
        yield _amount("  budget", result.environment.budget.monthly_usd)
    yield ""


def _amount(name: str, dollars: float) -> str:
    """Return a row: cents below $1,000, whole dollars above."""
    return f"{name:{_WIDTH}}{dollars:>10,.{2 if abs(dollars) < 1000 else 0}f}"


def _point(result: Forecast, name: str) -> str:
    if name not in result.break_even:
        return ""
    point = result.break_even[name]
    if point is None:
        return "never"
    return "always" if point <= _LEAST else number(point)


def _cold_starts(result: Forecast) -> Iterator[str]:
    yield "cold starts on demand, if Lambda reuses the most recently used environment:"
    yield f"  {1000 * result.scenario.init_seconds:,.0f} ms of CPU time each, with warm files"
    for minutes, share in result.cold_starts.items():
        yield f"  {percent(share)} of requests with an idle timeout of {minutes} minutes"
    if isinstance(result.environment.cold_start, Provisioned):
        kept, beyond = result.scenario.provisioned
        yield (
            f"provisioned concurrency: {kept:.1f} on average; "
            f"{percent(beyond)} of requests are beyond it"
        )


def price_notes(prices: Prices, models: Sequence[HostedModel], *, today: date) -> Iterator[str]:
    """Yield what to know about the prices: assumed ones and old ones."""
    if prices.assumed:
        yield (
            f"{len(prices.assumed)} of {len(prices.lines)} prices are those of {DEFAULT_REGION}, "
            f"for the file has none of {prices.region}: scripts/cost NAME --refresh"
        )
    dates = {name: price.date for name, price in prices.lines.items()}
    hosted = {model.name: model.date for model in models}
    for what, read, then in (
        ("prices", dates, "scripts/cost NAME --refresh"),
        ("prices of hosted APIs", hosted, "edit constructs/embedding_kit/prices.json"),
    ):
        old = sorted(name for name, day in read.items() if (today - day).days > _OLD_DAYS)
        if old:
            names = f"{', '.join(old[:3])}{', ...' if len(old) > 3 else ''}"
            yield f"warning: {len(old)} {what} are older than {_OLD_DAYS} days ({names}): {then}"


def as_json(result: Forecast) -> dict[str, Any]:
    """Return the forecast for programs. All amounts are US dollars a month."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return values | {
        "environment": result.environment.name,
        "region": result.prices.region,
        "scenario": asdict(result.scenario),
        "seconds": result.scenario.seconds,
        "usd": result.usd,
        "options": {name: [*map(asdict, bill)] for name, bill in result.options.items()},
        "added": [*map(asdict, result.added)],
        "free": [*map(asdict, result.free)],
        "prices": {
            name: {"usd": price.usd, "date": price.date.isoformat(), "source": price.source}
            for name, price in result.prices.lines.items()
        },
    }


def number(value: float) -> str:
    """Format an amount with two or three digits and a unit: 3M, 12.5M, 390k."""
    for unit in ("G", "M", "k"):
        if value >= UNITS[unit] * 0.9995:
            scaled = value / UNITS[unit]
            return f"{scaled:.3g}{unit}" if scaled < 1000 else f"{scaled:.0f}{unit}"
    return f"{value:.0f}"


def percent(share: float) -> str:
    """Format a share with two digits."""
    if 0 < share < 0.0001:
        return "under 0.01%"
    return f"{100 * share:.2g}%" if share < 0.995 else "100%"
