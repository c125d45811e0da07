"""Traffic of a month: how many requests, of how many tokens, and how they are distributed."""

import math
from dataclasses import dataclass

__all__ = ["MONTH_SECONDS", "SHAPES", "Load", "Traffic"]

#: 730 hours, as AWS's price calculator counts a month.
MONTH_SECONDS = 730 * 3600
#: A diurnal rate is up to 90% above and below its mean.
_SWING = 0.9
_TROUGH_HOUR = 2
#: Bursty: 95% of the requests in the first five minutes of each hour.
_BURST_SHARE, _BURST_TIME = 0.95, 1 / 12
#: X-Ray traces the first request of each second, and this share of the others. On Lambda nobody can
#: change that: https://docs.aws.amazon.com/lambda/latest/dg/services-xray.html
_TRACED = 0.05


@dataclass(frozen=True, slots=True)
class Load:
    """A part of the month with one rate."""

    #: Its share of the month's time.
    share: float
    #: Its rate over the month's mean rate.
    multiple: float
    #: The hour of the day; None for a part of every hour.
    hour: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """The requests of a month."""

    #: Requests a month.
    requests: float
    #: Tokens of one request.
    tokens: int
    #: The shape's name, for reports.
    shape: str
    loads: tuple[Load, ...]

    @property
    def rate(self) -> float:
        """The mean number of requests a second."""
        return self.requests / MONTH_SECONDS

    @property
    def peak(self) -> float:
        """The highest rate over the mean rate."""
        return max(load.multiple for load in self.loads)

    @property
    def sampled(self) -> float:
        """The requests that X-Ray traces, if they arrive independently."""
        firsts = sum(
            load.share * MONTH_SECONDS * -math.expm1(-self.rate * load.multiple)
            for load in self.loads
        )
        return firsts + _TRACED * (self.requests - firsts)


def _diurnal() -> tuple[Load, ...]:
    # A sine with its lowest rate at 2:00 and its highest at 14:00.
    quarter = _TROUGH_HOUR + 6
    angles = (2 * math.pi * (hour + 0.5 - quarter) / 24 for hour in range(24))
    return tuple(
        Load(1 / 24, 1 + _SWING * math.sin(angle), hour) for hour, angle in enumerate(angles)
    )


#: The loads of each shape that has a name.
SHAPES: dict[str, tuple[Load, ...]] = {
    "flat": (Load(1.0, 1.0),),
    "diurnal": _diurnal(),
    "bursty": (
        Load(_BURST_TIME, _BURST_SHARE / _BURST_TIME),
        Load(1 - _BURST_TIME, (1 - _BURST_SHARE) / (1 - _BURST_TIME)),
    ),
}
