"""A forecast of one environment's month, as values, text and JSON."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from embedding_kit.prices import DEFAULT_REGION, HostedModel, Prices
from embedding_kit.settings import Provisioned, SnapStart
from operations.cost.alternatives import (
    LOWEST,
    ON_DEMAND,
    PROVISIONED,
    SNAPSTART,
    Bill,
    Scenario,
    alternatives,
    break_even,
    usd,
)
from operations.cost.bill import Resource, added_items
from operations.cost.workload import (
    OVERHEAD_SECONDS,
    Month,
    Speed,
    cold_start_share,
    core_seconds,
    model_speed,
)
from stacks.environment import EnvironmentSettings

#: Seconds until Lambda ends an idle environment: AWS does not say; others measured 300 to 900.
IDLE_SECONDS = 300.0
_WIDTH = 44
#: Prices older than this are likely to be wrong.
_OLD_DAYS = 180
_FILE = "constructs/embedding_kit/prices.json"
UNITS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The result of the command.

    Attributes:
        speed: Where the times come from, in words.
        bills: The bill of each way to serve by its name, in the table's order.
        chosen: The name of the environment's own way.
        added: Items that the environment's bill has besides its way.
        break_even: By a way's name, the requests a month from which the environment's own way
            costs more; None if it never does.
        notes: Warnings.
    """

    environment: EnvironmentSettings
    prices: Prices
    scenario: Scenario
    speed: str
    bills: Mapping[str, Bill]
    chosen: str
    added: Bill
    break_even: Mapping[str, float | None]
    notes: Sequence[str]

    @property
    def usd(self) -> float:
        """US dollars a month: the environment's own way and what is added."""
        return usd((*self.bills[self.chosen], *self.added))


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
    if month.milliseconds is None:
        speed = model_speed(environment.model)
    else:
        speed = Speed(points=((month.tokens, month.milliseconds),), source="--milliseconds")
    scenario = Scenario(
        month=month,
        core_seconds=core_seconds(speed, month.tokens),
        memory_mb=environment.function.memory_mb,
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
    cold_share = cold_start_share(month, seconds=scenario.seconds, timeout=IDLE_SECONDS)
    scenario = replace(scenario, cold_share=cold_share)
    added = added_items(environment, synthesize(environment), prices, scenario)
    ways_to_serve = alternatives(models)
    return Forecast(
        environment=environment,
        prices=prices,
        scenario=scenario,
        speed=speed.source,
        bills={name: serve(prices, scenario) for name, serve in ways_to_serve.items()},
        chosen=chosen,
        added=added,
        break_even={
            name: break_even(prices, scenario, ways_to_serve[chosen], serve)
            for name, serve in ways_to_serve.items()
            if name != chosen
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
    return "\n".join((_answer(result), "", *_ways(result), "", *_own(result), _starts(result)))


def as_json(result: Forecast) -> str:
    """Return the forecast for programs, in US dollars a month."""
    items = (*result.bills[result.chosen], *result.added)
    value = {
        "environment": result.environment.name,
        "region": result.prices.region,
        "usd": result.usd,
        "items": [{"name": item.name, "usd": item.usd} for item in items],
        "alternatives": {name: usd(bill) for name, bill in result.bills.items()},
        "cheaper_from_requests": result.break_even,
        "cold_start_share": result.scenario.cold_share,
    }
    return json.dumps(value, indent=2)


def _answer(result: Forecast) -> str:
    # The printed parts add up to the printed sum.
    total, own = round(result.usd, 2), round(usd(result.bills[result.chosen]), 2)
    return (
        f"{result.environment.name} costs ${total:,.2f} a month: ${own:,.2f} for requests, "
        f"${total - own:,.2f} for the rest."
    )


def _ways(result: Forecast) -> Iterator[str]:
    environment, month = result.environment, result.scenario.month
    yield (
        f"{environment.name} in {result.prices.region}: {environment.model.name}, "
        f"{environment.function.memory_mb:,} MB"
    )
    yield (
        f"{number(month.requests)} requests a month of {month.tokens:,} tokens; "
        f"{1000 * result.scenario.seconds:,.1f} ms each on Lambda"
    )
    yield f"times: {result.speed}"
    yield ""
    yield f"{'US dollars a month':{_WIDTH}}{'':>10}  cheaper from (requests)"
    for name, bill in result.bills.items():
        after = "this environment" if name == result.chosen else _point(result, name)
        yield f"{_amount(name, usd(bill))}  {after}".rstrip()


def _own(result: Forecast) -> Iterator[str]:
    yield "This environment"
    for item in (*result.bills[result.chosen], *result.added):
        if item.usd:
            yield _amount(f"  {item.name}", item.usd)
    yield _amount("  sum", result.usd)
    if result.environment.budget and result.environment.budget.monthly_usd:
        yield _amount("  budget", result.environment.budget.monthly_usd)
    yield ""


def _amount(name: str, dollars: float) -> str:
    """Return a row: cents below $1,000, whole dollars above."""
    return f"{name:{_WIDTH}}{dollars:>10,.{2 if abs(dollars) < 1000 else 0}f}"


def _point(result: Forecast, name: str) -> str:
    point = result.break_even[name]
    if point is None:
        return "never"
    return "always" if point <= LOWEST else number(point)


def _starts(result: Forecast) -> str:
    if result.chosen == PROVISIONED:
        environments, beyond = result.scenario.provisioned
        return (
            f"provisioned concurrency: {environments:.1f} on average; {percent(beyond)} of "
            "requests are beyond it"
        )
    return f"cold starts: {percent(result.scenario.cold_share)} of requests"


def price_notes(prices: Prices, models: Sequence[HostedModel], *, today: date) -> Iterator[str]:
    """Yield what to know about the prices: assumed ones and old ones."""
    if prices.assumed:
        yield (
            f"{len(prices.assumed)} of {len(prices.lines)} prices are those of {DEFAULT_REGION}, "
            f"for {_FILE} has none of {prices.region}"
        )
    dates = [price.date for price in prices.lines.values()] + [model.date for model in models]
    if outdated := sum((today - day).days > _OLD_DAYS for day in dates):
        yield f"warning: {outdated} prices of {_FILE} are older than {_OLD_DAYS} days"


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
