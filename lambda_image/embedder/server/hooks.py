"""What may be added around a request: keys, limits, metrics, traces. None of them by default."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from embedder.server.exchange import Caller, Exchange
from embedder.server.queue import MergedRun

__all__ = [
    "Authenticator",
    "Hooks",
    "Limiter",
    "Metrics",
    "QueueState",
    "Span",
    "Tracer",
]


class QueueState(Protocol):
    """The queue's gauges."""

    @property
    def waiting_runs(self) -> int:
        """Runs that wait."""

    @property
    def waiting_tokens(self) -> int:
        """Tokens that wait, padding included."""

    @property
    def seconds(self) -> float:
        """The time that the workers take for what waits."""


class Authenticator(Protocol):
    """Decides who may send requests."""

    def authenticate(self, headers: Mapping[str, str]) -> Caller:
        """Return whose key the headers hold.

        Raises:
            UnauthorizedError: with `WWW-Authenticate`.
        """


class Limiter(Protocol):
    """Counts requests and tokens per minute."""

    def admit(self, caller: Caller, *, tokens: int) -> Mapping[str, str]:
        """Count a request that is expected to have this many tokens; return response headers.

        Raises:
            RateLimitedError: with `Retry-After`.
        """

    def settle(self, caller: Caller, *, estimated: int, tokens: int) -> Mapping[str, str]:
        """Count the tokens that a request really had; return the headers of its response."""


class Metrics(Protocol):
    """Counts what happens."""

    def observe(self, exchange: Exchange) -> None:
        """Count a request that is over."""

    def observe_run(self, run: MergedRun) -> None:
        """Count a run of the model; called in a worker's thread."""

    def render(self, headers: Mapping[str, str]) -> tuple[bytes, str]:
        """Return the body and the content type of `GET /metrics`."""


class Span(Protocol):
    """The trace of one request."""

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers of the response."""

    def end(self, exchange: Exchange) -> None:
        """End the trace of a request that is over."""


class Tracer(Protocol):
    """Makes traces."""

    def start(self, exchange: Exchange, headers: Mapping[str, str]) -> Span:
        """Begin the trace of a request with these headers."""

    def close(self) -> None:
        """Send what was not sent yet."""


class Hooks(NamedTuple):
    """What is on; None is off, and costs a request nothing."""

    authenticator: Authenticator | None = None
    limiter: Limiter | None = None
    metrics: Metrics | None = None
    tracer: Tracer | None = None
