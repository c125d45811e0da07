"""The alarms' thresholds in the metrics' units: as set, or derived from the function's limits."""

from dataclasses import dataclass
from datetime import timedelta

from embedding_kit.settings import AlarmSettings, FunctionSettings
from embedding_kit.settings.observability import INIT_LIMIT

__all__ = ["RUNBOOK", "Thresholds", "derive_thresholds"]

#: What to do when an alarm rings; each has a section there, named like the alarm.
RUNBOOK = "docs/runbook.md"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """Where each alarm starts. Durations in milliseconds, shares in percent, memory in MB."""

    duration_p50: float
    duration_p99: float
    init_p99: float
    init_maximum: float
    error_percent: float
    throttle_percent: float
    #: Of `concurrency_limit`.
    concurrency_percent: float
    #: The most requests that may run at once: the reservation, else the account's quota.
    concurrency_limit: int
    #: The quota of all functions of the account together.
    account_concurrency: int
    provisioned_percent: float
    memory: float
    #: The longest normal silence, in minutes; None where silence is normal.
    silence: int | None


def derive_thresholds(alarms: AlarmSettings, function: FunctionSettings) -> Thresholds:
    """Fill in what the settings leave open.

    A request that takes half its timeout is one slow neighbour away from failing, so that is where
    the slowest hundredth may not be; the median should be far from it, at a tenth.
    """
    return Thresholds(
        duration_p50=_milliseconds(alarms.duration_p50 or function.timeout / 10),
        duration_p99=_milliseconds(alarms.duration_p99 or function.timeout / 2),
        init_p99=_milliseconds(alarms.init_p99 or min(INIT_LIMIT / 2, alarms.init_maximum)),
        init_maximum=_milliseconds(alarms.init_maximum),
        error_percent=alarms.error_percent,
        throttle_percent=alarms.throttle_percent,
        concurrency_percent=alarms.concurrency_percent,
        concurrency_limit=function.reserved_concurrency or function.account_concurrency,
        account_concurrency=function.account_concurrency,
        provisioned_percent=alarms.provisioned_percent,
        memory=function.memory_mb * alarms.memory_percent / 100,
        silence=alarms.traffic_every // timedelta(minutes=1) if alarms.traffic_every else None,
    )


def _milliseconds(span: timedelta) -> float:
    return span / timedelta(milliseconds=1)
