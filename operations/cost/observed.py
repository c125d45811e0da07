"""What a deployed environment did: its traffic, durations and cold starts."""

from collections import Counter
from dataclasses import dataclass

from operations.cost.duration import OVERHEAD_SECONDS, Speed, speedup
from operations.cost.traffic import MONTH_SECONDS, Load, Traffic

__all__ = ["Observed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Some days of an environment."""

    #: Requests in each hour.
    hours: tuple[float, ...]
    #: Mean tokens of a request.
    tokens: int
    #: Mean duration of a request, without initialization.
    seconds: float
    #: The share of requests that met a cold start.
    cold_share: float
    #: The mean initialization; None without one.
    init_seconds: float | None
    days: int

    @property
    def traffic(self) -> Traffic:
        """The traffic of a month like these days, with the rate of each hour."""
        count, total = len(self.hours), sum(self.hours)
        loads = tuple(
            Load(number / count, requests * count / total)
            for requests, number in sorted(Counter(self.hours).items())
        )
        return Traffic(
            requests=total / (count * 3600) * MONTH_SECONDS,
            tokens=self.tokens,
            shape=f"as in the last {self.days} days",
            loads=loads,
        )

    def speed(self, *, memory_mb: int, threads: int | None) -> Speed:
        """Return the time of one core that gives the observed duration at this size.

        Args:
            memory_mb: The function's memory.
            threads: Inference threads; one for each whole vCPU if None.
        """
        model = max(self.seconds - OVERHEAD_SECONDS, self.seconds / 10)
        core = model * speedup(memory_mb=memory_mb, threads=threads)
        return Speed(
            points=((self.tokens, 1000 * core),),
            source=f"the deployed endpoint, {self.days} days",
        )
