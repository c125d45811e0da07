"""One environment and one traffic: all options, what is added to each bill, and cold starts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from embedding_kit.environment import Environment
from embedding_kit.prices import HostedModel, LineItem, Prices
from embedding_kit.settings import Provisioned, SnapStart
from operations.cost.cold_starts import cold_start_share
from operations.cost.deployed import Resource, deployed_items, free_items
from operations.cost.extras import Volumes, extra_items
from operations.cost.lambda_options import ON_DEMAND, PROVISIONED, SNAPSTART
from operations.cost.option import Option
from operations.cost.options import Scenario, all_options, break_even

__all__ = ["TIMEOUTS", "ColdStarts", "Forecast", "forecast", "poisson_cold_starts"]

#: Minutes after which Lambda ends an idle environment. AWS does not say; others measured these.
TIMEOUTS = (5, 15)


@dataclass(frozen=True, slots=True)
class ColdStarts:
    """The share of requests that meets a cold start, as a band."""

    #: The environment that was idle longest is taken, and ends after 15 minutes; None if this was
    #: not simulated.
    lowest: float
    #: The environment that was used last is taken, and ends after 15 minutes.
    recent: float
    #: The same, after 5 minutes.
    highest: float
    #: How they were found: `formula`, `simulation` or `measured`.
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """The result of the command.

    Attributes:
        options: All ways to serve, in the table's order.
        chosen: The name of the environment's own option.
        added: Items that the environment's bill has besides its option.
        free: What CloudWatch's free tier takes off them, if nothing else of the account uses it.
        cold_starts: The share of requests that meets a cold start on demand.
        kept: The average provisioned concurrency of that option.
        beyond: The share of requests beyond it.
        break_even: By an option's name, the requests a month from which the environment's own
            option costs more; None if it never does.
    """

    environment: Environment
    prices: Prices
    scenario: Scenario
    options: tuple[Option, ...]
    chosen: str
    added: tuple[LineItem, ...]
    free: tuple[LineItem, ...]
    cold_starts: ColdStarts
    kept: float
    beyond: float
    break_even: Mapping[str, float | None]

    @property
    def own(self) -> Option:
        """The environment's own option."""
        return next(option for option in self.options if option.name == self.chosen)

    @property
    def usd(self) -> float:
        """The environment's bill: its own option and what is added."""
        return self.own.usd + sum(item.usd for item in self.added)


def poisson_cold_starts(scenario: Scenario, *, lowest: float) -> ColdStarts:
    """Return the band for Poisson arrivals by the formula.

    Args:
        scenario: The traffic and the function.
        lowest: The lower bound, which only a simulation finds.
    """
    traffic = scenario.traffic
    highest, recent = (
        cold_start_share(
            traffic.loads,
            requests=traffic.requests,
            seconds=scenario.seconds,
            timeout=60.0 * minutes,
        )
        for minutes in TIMEOUTS
    )
    return ColdStarts(min(lowest, recent), recent, highest, "formula")


def forecast(
    environment: Environment,
    *,
    resources: Sequence[Resource],
    prices: Prices,
    models: Sequence[HostedModel],
    scenario: Scenario,
    volumes: Volumes,
    cold_starts: ColdStarts,
) -> Forecast:
    """Price everything.

    Args:
        environment: The environment.
        resources: The resources of its templates.
        prices: The prices of its region.
        models: The hosted APIs.
        scenario: The traffic and the function, with the share of cold starts to bill.
        volumes: Further amounts of the month.
        cold_starts: The band of cold starts.
    """
    options = all_options(prices, models, scenario)
    chosen = _chosen(environment)
    added = (
        *deployed_items(environment, resources, prices),
        *extra_items(environment, prices, volumes),
    )
    points = {
        option.name: break_even(prices, models, scenario, chosen, option.name)
        for option in options
        if option.name != chosen and not option.name.startswith(f"{ON_DEMAND},")
    }
    kept, beyond = scenario.provisioned
    return Forecast(
        environment=environment,
        prices=prices,
        scenario=scenario,
        options=options,
        chosen=chosen,
        added=added,
        free=free_items(added, resources),
        cold_starts=cold_starts,
        kept=kept,
        beyond=beyond,
        break_even=points,
    )


def _chosen(environment: Environment) -> str:
    if isinstance(environment.cold_start, Provisioned):
        return PROVISIONED
    return SNAPSTART if isinstance(environment.cold_start, SnapStart) else ON_DEMAND
