"""A forecast of one environment's month, from the environment and the user's choices."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.prices import HostedModel, Prices
from embedding_kit.settings import Provisioned, SnapStart
from model_compiler.source.catalog import find, measurements
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
    Choices,
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
    def own(self) -> Bill:
        """The environment's bill: its own way and what is added."""
        return (*self.options[self.chosen], *self.added)

    @property
    def usd(self) -> float:
        """US dollars a month."""
        return usd(self.own)


def forecast(
    environment: EnvironmentSettings,
    synthesize: Callable[[EnvironmentSettings], Sequence[Resource]],
    prices: Prices,
    models: Sequence[HostedModel],
    choices: Choices,
) -> Forecast:
    """Forecast a month.

    Args:
        environment: The environment.
        synthesize: Returns the resources of an environment's templates. It takes seconds, so it is
            called when nothing else can fail.
        prices: The prices of its region.
        models: The hosted APIs.
        choices: The user's choices.

    Raises:
        CostError: No times of the model are known.
    """
    if is_reranker(environment.model):
        choices = replace(choices, passages=choices.passages or PASSAGES)
    elif choices.passages:
        raise CostError(
            f"--passages is of a reranker; found: {environment.model.name}; allowed: a "
            "cross-encoder's folder, or no --passages"
        )
    speed = _speed(environment, choices)
    scenario = _scenario(environment, speed, choices)
    cold_starts = {
        minutes: cold_start_share(choices.traffic, seconds=scenario.seconds, timeout=60.0 * minutes)
        for minutes in TIMEOUTS
    }
    scenario = replace(scenario, cold_share=max(cold_starts.values()))
    resources = synthesize(environment)
    added = added_items(environment, resources, prices, scenario, choices)
    # The prices of hosted models are those of embeddings.
    chosen, all_ways = _chosen(environment), ways(() if choices.passages else models)
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
        notes=_notes(environment, speed, choices),
    )


def _speed(environment: EnvironmentSettings, choices: Choices) -> Speed:
    if choices.milliseconds is None:
        return speed_of(environment.model, slower=choices.slower)
    points = ((choices.tokens, choices.milliseconds),)
    return Speed(points=points, source="--milliseconds", slower=choices.slower)


def _core_seconds(speed: Speed, choices: Choices) -> float:
    """Return the time of a request: a reranker reads each pair of its query and a passage."""
    # --milliseconds is of the whole request.
    pairs = 1 if choices.milliseconds is not None else choices.passages or 1
    return pairs * core_seconds(speed, choices.tokens)


def _scenario(environment: EnvironmentSettings, speed: Speed, choices: Choices) -> Scenario:
    scenario = Scenario(
        traffic=choices.traffic,
        core_seconds=_core_seconds(speed, choices),
        memory_mb=environment.function.memory_mb,
        init_seconds=init_seconds(speed),
        fewest_servers=choices.servers,
    )
    cold_start = environment.cold_start
    if isinstance(cold_start, Provisioned):
        return replace(
            scenario,
            bounds=(cold_start.highest_minimum, cold_start.ceiling),
            target_utilization=cold_start.target_utilization,
        )
    return scenario


def _chosen(environment: EnvironmentSettings) -> str:
    if isinstance(environment.cold_start, Provisioned):
        return PROVISIONED
    return SNAPSTART if isinstance(environment.cold_start, SnapStart) else ON_DEMAND


def _notes(environment: EnvironmentSettings, speed: Speed, choices: Choices) -> list[str]:
    notes, tokens = [], choices.tokens
    memory = environment.function.memory_mb
    for model in environment.models.values():
        entry = None if model.folder else find(model.name)
        shape = measurements().shapes.get(entry.shape) if entry else None
        measured = shape.memory_mb if shape else {}
        # The least that fits the longest measured text with these tokens.
        fitting = [mb for length, mb in measured.items() if length >= tokens]
        if fitting and memory < fitting[0]:
            notes.append(
                f"warning: memory_mb is {memory}, and {model.name} needs {fitting[0]} for texts of "
                f"{tokens} tokens"
            )
    longest, _ = speed.points[-1]
    if tokens > longest:
        notes.append(
            f"warning: the longest measured text has {longest} tokens, and {tokens} are "
            "extrapolated; scripts/bench measures up to 2,048: --milliseconds MS"
        )
    if environment.model.precision == "fp32":
        notes.append(
            "warning: times are those of int8, and fp32 takes two to three times as long: "
            "--slower 2.5"
        )
    seconds = _core_seconds(speed, choices) + OVERHEAD_SECONDS
    if seconds > environment.function.timeout.total_seconds():
        notes.append("warning: a request takes longer than the function's timeout")
    return notes
