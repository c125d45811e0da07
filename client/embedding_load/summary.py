"""The result of a load test: its options, requests, answers and cost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from embedding_load.bill import Cost
from embedding_load.forecast import Forecast
from embedding_load.outcomes import ERRORS, WAITED, Kind, Outcome
from embedding_load.schedule import Plan
from embedding_load.sender import End
from embedding_load.settings import Settings
from embedding_load.statistics import Generator, Second, Spread, by_second, generator, spread

__all__ = ["Endpoint", "Summary", "summarize"]

#: The most stretches of a report.
_PARTS = 120
#: If the generator did not come to more than this share of requests, it fell behind.
_BEHIND_SHARE = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """What the endpoint says of itself.

    Attributes:
        url: Its URL.
        model: The model's name.
        vector_space: Its vector space.
        cold: Whether the question itself met a cold start. It is sent before the test, so that an
            endpoint that refuses the caller ends the test before it begins.
        longest: The most tokens of a text; 0 if unknown.
    """

    url: str
    model: str
    vector_space: str
    cold: bool
    longest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The result of a test.

    Attributes:
        settings: What was asked for.
        endpoint: The endpoint.
        plan: What was to be sent.
        end: What ended the test.
        seconds: The time until the last answer.
        kinds: The number of requests of each kind.
        statuses: The number of answers by their HTTP status.
        latency: Seconds from when a request was due, of all that waited for a vector.
        service: Seconds from when a request was sent, of those with one.
        cold: Latencies of the requests that met a cold start.
        asked: Tokens that were asked for, of the requests with a vector.
        counted: Tokens that the endpoint counted in them.
        generator: Whether the load came as it was planned.
        parts: The test in stretches of whole seconds.
        cost: What was spent; None for a server.
        basis: What the cost is computed from.
        forecast: What the cost model expects; None for a server.
    """

    settings: Settings
    endpoint: Endpoint
    plan: Plan
    end: End
    seconds: float
    kinds: Counter[Kind]
    statuses: Counter[int]
    latency: Spread | None
    service: Spread | None
    cold: Spread | None
    asked: int
    counted: int
    generator: Generator
    parts: Sequence[Second]
    cost: Cost | None
    basis: str
    forecast: Forecast | None

    @property
    def sent(self) -> int:
        """Requests that were sent."""
        return self.kinds.total() - self.kinds[Kind.UNSENT]

    @property
    def errors(self) -> int:
        """Requests that failed, timed out, were refused or found no endpoint."""
        return sum(self.kinds[kind] for kind in ERRORS)

    @property
    def cold_starts(self) -> int:
        """Requests that met a cold start."""
        return self.cold.count if self.cold else 0

    @property
    def missed(self) -> int:
        """Requests that were due before the end, and that the generator did not come to."""
        if self.end is not End.TIME:
            return 0
        return len(self.plan.due) - self.kinds.total()

    @property
    def fell_behind(self) -> bool:
        """Whether this process was the bottleneck."""
        return self.generator.fell_behind or self.missed > _BEHIND_SHARE * len(self.plan.due)


def summarize(
    settings: Settings,
    endpoint: Endpoint,
    plan: Plan,
    outcomes: Sequence[Outcome],
    *,
    end: End,
    cost: Cost | None,
    basis: str,
    forecast: Forecast | None,
) -> Summary:
    """Return the result of a test.

    Args:
        settings: What was asked for.
        endpoint: The endpoint.
        plan: What was to be sent.
        outcomes: What became of each request.
        end: What ended the test.
        cost: What was spent; None for a server.
        basis: What the cost is computed from.
        forecast: What the cost model expects; None for a server.
    """
    answered = [outcome for outcome in outcomes if outcome.kind is Kind.OK]
    return Summary(
        settings=settings,
        endpoint=endpoint,
        plan=plan,
        end=end,
        seconds=max((outcome.ended for outcome in outcomes), default=0.0),
        kinds=Counter(outcome.kind for outcome in outcomes),
        statuses=Counter(outcome.status for outcome in outcomes if outcome.status),
        latency=spread([outcome.latency for outcome in outcomes if outcome.kind in WAITED]),
        service=spread([outcome.service for outcome in answered]),
        cold=spread([outcome.latency for outcome in outcomes if outcome.cold]),
        asked=sum(outcome.asked for outcome in answered),
        counted=sum(outcome.counted for outcome in answered),
        generator=generator(outcomes),
        parts=by_second(
            outcomes,
            seconds=min(plan.seconds, max((outcome.ended for outcome in outcomes), default=1.0)),
            parts=_PARTS,
        ),
        cost=cost,
        basis=basis,
        forecast=forecast,
    )
