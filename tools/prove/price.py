"""The price of a run, at most, from the price list of `scripts/cost`."""

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.prices import HOURS, load_prices, priced
from embedding_kit.settings import SnapStart
from embedding_kit.standing_cost import capacity_items
from operations.cost.bill import added_items
from operations.cost.ways import Scenario
from operations.cost.workload import Month
from tools.cost import resources_of
from tools.prove.measure import LENGTHS, REPEATS, SIZES, VECTORS

#: What a run takes with a deploy and a destroy, in hours, at most; and a snapshot's least time.
_HOURS, _SNAPSHOT_HOURS = 2.0, 3.0
#: Billed seconds of a start and of a request, at most: 2,048 tokens take two.
_START_SECONDS, _REQUEST_SECONDS = 10.0, 5.0


def price_of(environment: EnvironmentSettings, *, starts: int) -> float:
    """Return US dollars of a run at most, at list prices, without a free tier."""
    prices = load_prices(*([environment.region] if environment.region else []))
    requests = REPEATS * (len(LENGTHS) + 1)
    seconds = starts * _START_SECONDS + requests * _REQUEST_SECONDS
    # Callers through the URL, and searches, are requests of the environment's own size.
    gigabytes = (*SIZES, 2 * environment.function.memory_mb)
    month = Month(requests=5 * (starts + requests), releases=0, vectors=VECTORS)
    scenario = Scenario(
        month=month, core_seconds=_REQUEST_SECONDS, memory_mb=environment.function.memory_mb
    )
    items = (
        priced(prices, "lambda_duration", "duration", seconds * sum(gigabytes) / 1024),
        priced(prices, "lambda_requests", "requests", month.requests),
        *added_items(environment, resources_of(environment), prices, scenario),
    )
    # Amounts of a month are billed by the hour; requests and data once.
    used = sum(item.usd * (_HOURS / HOURS if _lasts(item.unit) else 1) for item in items)
    hours = _SNAPSHOT_HOURS if isinstance(environment.cold_start, SnapStart) else _HOURS
    kept = sum(item.usd for item in capacity_items(environment, prices)) * hours / HOURS
    return used + kept


def _lasts(unit: str) -> bool:
    return unit.endswith(("-month", "hour"))
