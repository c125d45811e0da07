"""The forecast as text."""

from collections.abc import Iterator
from datetime import date

from embedding_kit.prices import DEFAULT_REGION, HostedModel, Prices
from embedding_kit.settings import Provisioned
from operations.cost.deployed import FREE
from operations.cost.forecast import TIMEOUTS, ColdStarts, Forecast
from operations.cost.numbers import dollars, number, percent

__all__ = ["as_table", "price_notes"]

_WIDTH = 46
#: Prices older than this are likely to be wrong.
_OLD_DAYS = 180
#: More requests than this beyond the provisioned concurrency are worth a note.
_SPILLOVER = 0.01


def as_table(result: Forecast, *, speed: str) -> str:
    """Return the table.

    Args:
        result: The forecast.
        speed: Where the times come from, in words.
    """
    return "\n".join(_lines(result, speed)) + "\n"


def _lines(result: Forecast, speed: str) -> Iterator[str]:
    environment, traffic = result.environment, result.scenario.traffic
    yield (
        f"{environment.name} in {result.prices.region}: {environment.model.name}, "
        f"{environment.function.memory_mb:,} MB"
    )
    yield (
        f"{number(traffic.requests)} requests a month of {traffic.tokens:,} tokens, "
        f"{traffic.shape}; {1000 * result.scenario.seconds:,.1f} ms each on Lambda"
    )
    yield f"times: {speed}"
    yield ""
    yield f"{'US dollars a month':{_WIDTH}}{'':>10}  costs less than this environment's"
    yield f"{'':{_WIDTH}}{'':>10}  way from (requests a month)"
    for option in result.options:
        own = option.name == result.chosen
        after = "this environment" if own else _point(result, option.name)
        yield f"{option.name:{_WIDTH}}{dollars(option.usd):>10}  {after}".rstrip()
    yield ""
    yield "This environment"
    free = {item.name: item for item in result.free}
    for item in (*result.own.items, *result.added):
        if item.usd:
            note = f"  {FREE[item.unit]} free in an account" if item.name in free else ""
            yield f"  {item.name:{_WIDTH - 2}}{dollars(item.usd):>10}{note}"
    yield f"  {'sum':{_WIDTH - 2}}{dollars(result.usd):>10}"
    if free:
        least = result.usd + sum(item.usd for item in result.free)
        name = "sum, if nothing else uses what is free"
        yield f"  {name:{_WIDTH - 2}}{dollars(least):>10}"
    if result.environment.budget and result.environment.budget.monthly_usd:
        budget = result.environment.budget.monthly_usd
        yield f"  {'budget':{_WIDTH - 2}}{dollars(budget):>10}"
    yield ""
    yield from _cold_starts(result)


def _point(result: Forecast, name: str) -> str:
    if name not in result.break_even:
        return ""
    point = result.break_even[name]
    if point is None:
        return "never"
    return "always" if point <= 1e3 else number(point)


def _cold_starts(result: Forecast) -> Iterator[str]:
    cold: ColdStarts = result.cold_starts
    if cold.method == "measured":
        yield f"cold starts: {percent(cold.highest)} of requests, as measured"
    else:
        yield (
            f"cold starts on demand: {percent(cold.lowest)} to {percent(cold.highest)} of "
            f"requests ({cold.method})"
        )
        yield (
            f"  the last used environment is taken: {percent(cold.recent)} if it ends after "
            f"{TIMEOUTS[1]} idle minutes, {percent(cold.highest)} after {TIMEOUTS[0]}"
        )
        yield f"  the one that is idle longest is taken: {percent(cold.lowest)}"
    if isinstance(result.environment.cold_start, Provisioned):
        yield (
            f"provisioned concurrency: {result.kept:.1f} on average; "
            f"{percent(result.beyond)} of requests are beyond it"
        )
        if result.beyond > _SPILLOVER:
            yield (
                "  AWS serves 10 requests a second for each provisioned environment; raise the "
                "maximum, or lower target_utilization"
            )


def price_notes(prices: Prices, models: tuple[HostedModel, ...], *, today: date) -> Iterator[str]:
    """Yield what to know about the prices: assumed ones and old ones."""
    if prices.assumed:
        count, total = len(prices.assumed), len(prices.lines)
        yield (
            f"{count} of {total} prices are those of {DEFAULT_REGION}, for the table has none of "
            f"{prices.region}: scripts/cost --refresh --region {prices.region}"
        )
    old = sorted(prices.older_than(_OLD_DAYS, today=today))
    if old:
        yield (
            f"warning: {len(old)} prices are older than {_OLD_DAYS} days "
            f"({', '.join(old[:3])}{', ...' if len(old) > 3 else ''}): scripts/cost --refresh"
        )
    stale = [model.name for model in models if (today - model.date).days > _OLD_DAYS]
    if stale:
        yield (
            f"warning: prices of hosted APIs are older than {_OLD_DAYS} days; edit "
            f"constructs/embedding_kit/prices/hosted.json: {', '.join(stale)}"
        )
