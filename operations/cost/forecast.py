"""A forecast of one environment's month, from the environment and the user's choices."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.prices import HostedModel, Prices
from embedding_kit.settings import Provisioned, SnapStart
from operations.cost import CostError
from operations.cost.bill import Resource, added_items, free_items
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

#: Minutes after which Lambda ends an idle environment. AWS does not say; others measured these.
TIMEOUTS = (5, 15)
#: Passages of a request to a reranker: the candidates of a search.
PASSAGES = 100


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
