"""What the cost command forecasts for a test, and for a month of its traffic."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from embedding_costs.duration import core_seconds
from embedding_costs.forecast import TIMEOUTS, ColdStarts, poisson_cold_starts
from embedding_costs.options import Scenario
from embedding_costs.simulated import lowest_share, simulated_cold_starts
from embedding_costs.simulation import sample
from embedding_costs.traffic import MONTH_SECONDS, SHAPES, Traffic
from embedding_load.assumptions import Assumptions
from embedding_load.outcomes import Outcome
from embedding_load.schedule import Plan
from embedding_load.simulation import starts_from_nothing

__all__ = ["Forecast", "Month", "forecast", "month_of", "planned_usd"]

#: Requests that are simulated for a month's band, and for the estimate before a test.
_SIMULATED = 100_000


@dataclass(frozen=True, slots=True)
class Month:
    """A month at the test's mean rate."""

    requests: float
    usd: float
    cold_starts: ColdStarts | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What the cost model expects of the requests that were sent."""

    #: Mean billed seconds of a request.
    seconds: float
    usd: float
    #: None with provisioned concurrency, where none is expected up to its bound.
    cold_starts: int | None
    month: Month


def planned_usd(plan: Plan, assumptions: Assumptions) -> float:
    """Return the estimated cost of a plan, with the cold starts of its first requests."""
    bill = assumptions.bill
    seconds = _seconds(plan.tokens, assumptions)
    cold = _cold_starts(plan.due[:_SIMULATED], seconds[:_SIMULATED], assumptions) or 0
    return bill.request * len(seconds) + bill.second * float(seconds.sum()) + bill.cold_start * cold


def forecast(plan: Plan, outcomes: Sequence[Outcome], assumptions: Assumptions) -> Forecast:
    """Return the forecast of what was sent, by the tokens that were asked for.

    Cold starts are simulated on the very arrivals, from a function without an environment.
    """
    bill = assumptions.bill
    ordered = sorted(outcomes, key=lambda outcome: outcome.due)
    due = np.array([outcome.due for outcome in ordered], dtype=np.float64)
    tokens = np.array([outcome.asked for outcome in ordered], dtype=np.int64)
    seconds = _seconds(tokens, assumptions)
    cold = _cold_starts(due, seconds, assumptions)
    usd = bill.request * len(seconds) + bill.second * float(seconds.sum())
    return Forecast(
        seconds=float(seconds.mean()) if len(seconds) else 0.0,
        usd=usd + bill.cold_start * (cold or 0),
        cold_starts=cold,
        month=month_of(plan, assumptions),
    )


def month_of(plan: Plan, assumptions: Assumptions) -> Month:
    """Return the cost command's forecast for a month at the plan's rate and shape."""
    bill, function = assumptions.bill, assumptions.function
    requests = plan.rate * MONTH_SECONDS
    lengths, counts = np.unique(plan.tokens, return_counts=True)
    weights = counts / max(1, counts.sum())
    times = [core_seconds(assumptions.speed, int(length)) for length in lengths]
    core = float(np.dot(times, weights)) if len(lengths) else 0.0
    scenario = Scenario(
        traffic=Traffic(
            requests=requests,
            tokens=round(float(np.dot(lengths, weights))) if len(lengths) else 0,
            shape=plan.shape,
            loads=SHAPES[plan.shape],
        ),
        core_seconds=core,
        memory_mb=function.memory_mb,
        threads=function.threads,
    )
    usd = requests * (bill.request + bill.second * scenario.seconds)
    cold = None if assumptions.provisioned else _band(scenario)
    if cold is not None:
        usd += requests * cold.highest * bill.cold_start
    return Month(requests, usd, cold)


def _band(scenario: Scenario) -> ColdStarts:
    """Return the share of cold starts as the cost command does: bursts by simulation."""
    traffic = scenario.traffic
    arrivals = sample(
        traffic.loads, requests=traffic.requests, seconds=scenario.seconds, most=_SIMULATED
    )
    if traffic.shape == "bursty":
        return simulated_cold_starts(arrivals, progress=False)
    return poisson_cold_starts(scenario, lowest=lowest_share(arrivals))


def _cold_starts(
    due: npt.NDArray[np.float64], seconds: npt.NDArray[np.float64], assumptions: Assumptions
) -> int | None:
    if assumptions.provisioned:
        return None
    return starts_from_nothing(
        zip(due.tolist(), seconds.tolist(), strict=True),
        init_seconds=assumptions.bill.init_seconds,
        timeout=60.0 * TIMEOUTS[0],
    )


def _seconds(tokens: npt.NDArray[np.int64], assumptions: Assumptions) -> npt.NDArray[np.float64]:
    lengths, places = np.unique(tokens, return_inverse=True)
    times = np.array([assumptions.bill.seconds(int(length)) for length in lengths])
    return times[places] if len(lengths) else np.empty(0)
