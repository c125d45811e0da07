"""The report for programs. Times are milliseconds where the name says so, else seconds."""

from typing import Any

from embedding_load.outcomes import Kind
from embedding_load.statistics import Second, Spread
from embedding_load.summary import Summary

__all__ = ["as_json"]


def as_json(result: Summary) -> dict[str, Any]:
    """Return the report."""
    settings, plan, cold = result.settings, result.plan, result.cold
    return {
        "version": 1,
        "endpoint": {
            "url": result.endpoint.url,
            "model": result.endpoint.model,
            "vector_space": result.endpoint.vector_space,
        },
        "plan": {
            "rate": plan.rate,
            "peak_rate": plan.peak,
            "shape": plan.shape,
            "seconds": plan.seconds,
            "requests": len(plan.due),
            "tokens": list(plan.range),
            "seed": settings.seed,
            "connections": settings.connections,
            "timeout_seconds": settings.timeout,
        },
        "end": result.end.value,
        "seconds": result.seconds,
        "requests": {
            "sent": result.sent,
            **{kind.value: result.kinds[kind] for kind in Kind},
            "not_reached": result.missed,
        },
        "statuses": {str(status): count for status, count in sorted(result.statuses.items())},
        "latency_ms": _milliseconds(result.latency),
        "service_ms": _milliseconds(result.service),
        "cold_starts": {
            "requests": result.cold_starts,
            "share": result.cold_starts / result.sent if result.sent else 0.0,
            "before_the_test": result.endpoint.cold,
            "latency_ms": _milliseconds(cold),
        },
        "tokens": {"asked": result.asked, "counted": result.counted},
        "generator": {
            "fell_behind": result.fell_behind,
            "late": result.generator.late,
            "waited_for_connection": result.generator.waited,
            "delay_ms": _milliseconds(result.generator.delay),
        },
        "cost": _cost(result),
        "forecast": _forecast(result),
        "parts": [_part(part) for part in result.parts],
    }


def _milliseconds(times: Spread | None) -> dict[str, float] | None:
    if times is None:
        return None
    values = {"mean": times.mean, **times.at}
    return {name: round(1000 * value, 3) for name, value in values.items()}


def _cost(result: Summary) -> dict[str, Any] | None:
    if result.cost is None:
        return None
    return {
        "estimated_usd": result.cost.estimate,
        "at_most_usd": result.cost.bound,
        "budget_usd": result.settings.budget_usd,
        "basis": result.basis,
    }


def _forecast(result: Summary) -> dict[str, Any] | None:
    found = result.forecast
    if found is None:
        return None
    cold = found.month.cold_starts
    return {
        "usd": found.usd,
        "billed_ms": round(1000 * found.seconds, 3),
        "cold_starts": found.cold_starts,
        "month": {
            "requests": found.month.requests,
            "usd": found.month.usd,
            "cold_start_share": cold
            and {"lowest": cold.lowest, "highest": cold.highest, "method": cold.method},
        },
    }


def _part(part: Second) -> dict[str, Any]:
    latency = _milliseconds(part.latency)
    return {
        "begin": part.begin,
        "seconds": part.seconds,
        "due": part.due,
        "answered": part.answered,
        "throttled": part.throttled,
        "errors": part.errors,
        "cold_starts": part.cold_starts,
        "p50_ms": latency and latency["p50"],
        "p99_ms": latency and latency["p99"],
    }
