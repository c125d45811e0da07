"""One run of the command: from an environment and the user's choices to a forecast."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from embedding_kit.environment import Environment
from embedding_kit.prices import HostedModel, Prices
from embedding_kit.settings import Provisioned
from operations.cost.deployed import Resource
from operations.cost.duration import OVERHEAD_SECONDS, Speed, core_seconds
from operations.cost.extras import Volumes
from operations.cost.forecast import ColdStarts, Forecast, forecast, poisson_cold_starts
from operations.cost.measured import catalog_speed, report_speed
from operations.cost.observed import Observed
from operations.cost.options import Scenario
from operations.cost.simulated import lowest_share, simulated_cold_starts
from operations.cost.simulation import sample
from operations.cost.trace import Trace, read_trace
from operations.cost.traffic import SHAPES, Traffic

__all__ = ["Choices", "Run", "run"]

#: Requests that are simulated: for the lower bound alone, and for a shape without a formula.
_FOR_BOUND, _FOR_SHAPE = 100_000, 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the user says about a month; the options of `scripts/cost`."""

    requests: float = 1e6
    tokens: int = 128
    shape: str = "diurnal"
    trace: Path | None = None
    slower: float = 1.0
    measured: Path | None = None
    milliseconds: float | None = None
    servers: int = 2
    releases: float = 4
    batch_texts: float = 0.0
    vectors: float = 0.0
    searches: float | None = None
    seed: int = 0
    progress: bool = False
    #: What the deployed environment did; instead of requests, tokens, shape and times.
    observed: Observed | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """The forecast, where its times come from, and what to know about it."""

    forecast: Forecast
    speed: str
    notes: tuple[str, ...]


def run(
    environment: Environment,
    synthesize: Callable[[Environment], Sequence[Resource]],
    prices: Prices,
    models: tuple[HostedModel, ...],
    choices: Choices,
) -> Run:
    """Forecast a month.

    Args:
        environment: The environment.
        synthesize: Returns the resources of an environment's templates. It takes seconds, so it is
            called when nothing else can fail.
        prices: The prices of its region.
        models: The hosted APIs.
        choices: The user's choices.

    Raises:
        CostError: No times are known, or a file is not readable.
    """
    trace = read_trace(choices.trace, tokens=choices.tokens) if choices.trace else None
    traffic = trace.traffic if trace else _traffic(choices)
    speed = _speed(environment, choices, traffic.tokens)
    core = trace.core_seconds(speed) if trace else core_seconds(speed, traffic.tokens)
    scenario = _scenario(environment, traffic, core, choices)
    cold = _cold_starts(scenario, trace, speed, choices)
    result = forecast(
        environment,
        resources=synthesize(environment),
        prices=prices,
        models=models,
        scenario=replace(scenario, cold_share=cold.highest),
        volumes=Volumes(
            requests=traffic.requests,
            sampled=traffic.sampled,
            core_seconds=core,
            releases=choices.releases,
            batch_texts=choices.batch_texts,
            vectors=choices.vectors,
            searches=traffic.requests if choices.searches is None else choices.searches,
        ),
        cold_starts=cold,
    )
    return Run(result, speed.source, tuple(_notes(environment, speed, traffic, trace)))


def _traffic(choices: Choices) -> Traffic:
    if choices.observed:
        return choices.observed.traffic
    return Traffic(
        requests=choices.requests,
        tokens=choices.tokens,
        shape=choices.shape,
        loads=SHAPES[choices.shape],
    )


def _speed(environment: Environment, choices: Choices, tokens: int) -> Speed:
    if choices.observed:
        function = environment.function
        return choices.observed.speed(memory_mb=function.memory_mb, threads=None)
    if choices.milliseconds is not None:
        return Speed(
            points=((tokens, choices.milliseconds),),
            source="--milliseconds",
            slower=choices.slower,
        )
    if choices.measured is not None:
        return report_speed(choices.measured, slower=choices.slower)
    return catalog_speed(environment.model, slower=choices.slower)


def _scenario(
    environment: Environment, traffic: Traffic, core: float, choices: Choices
) -> Scenario:
    function, cold_start = environment.function, environment.cold_start
    scenario = Scenario(
        traffic=traffic,
        core_seconds=core,
        memory_mb=function.memory_mb,
        fewest_servers=choices.servers,
    )
    if choices.observed and choices.observed.init_seconds:
        scenario = replace(scenario, init_seconds=choices.observed.init_seconds)
    if isinstance(cold_start, Provisioned):
        return replace(
            scenario,
            bounds=(cold_start.highest_minimum, cold_start.ceiling),
            target_utilization=cold_start.target_utilization,
        )
    return scenario


def _cold_starts(
    scenario: Scenario, trace: Trace | None, speed: Speed, choices: Choices
) -> ColdStarts:
    """Return the band: by the formula, or by simulation for bursts and traces."""
    traffic = scenario.traffic
    if choices.observed:
        share = choices.observed.cold_share
        return ColdStarts(share, share, share, "measured")
    if trace:
        arrivals = trace.sample(speed, memory_mb=scenario.memory_mb, threads=scenario.threads)
        return simulated_cold_starts(arrivals, progress=choices.progress)
    simulated = traffic.shape == "bursty"
    arrivals = sample(
        traffic.loads,
        requests=traffic.requests,
        seconds=scenario.seconds,
        most=_FOR_SHAPE if simulated else _FOR_BOUND,
        seed=choices.seed,
    )
    if simulated:
        return simulated_cold_starts(arrivals, progress=choices.progress)
    return poisson_cold_starts(scenario, lowest=lowest_share(arrivals))


def _notes(
    environment: Environment, speed: Speed, traffic: Traffic, trace: Trace | None
) -> list[str]:
    notes = []
    longest = int(trace.tokens.max()) if trace else traffic.tokens
    if longest > speed.longest:
        notes.append(
            f"warning: the longest measured text has {speed.longest} tokens, and {longest} are "
            "extrapolated; scripts/bench measures up to 2,048: --measured FILE"
        )
    if environment.model.precision == "fp32":
        notes.append(
            "warning: times are those of int8, and fp32 takes two to three times as long: "
            "--slower 2.5"
        )
    if (
        core_seconds(speed, longest) + OVERHEAD_SECONDS
        > environment.function.timeout.total_seconds()
    ):
        notes.append("warning: a request takes longer than the function's timeout")
    return notes
