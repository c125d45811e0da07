"""What is watched: each alarm's metric, threshold and reason, as plain values."""

from collections.abc import Iterator
from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from embedding_kit.metrics import PERIOD, EndpointMetrics
from embedding_kit.settings import ColdStart, Provisioned, SnapStart
from embedding_kit.thresholds import Thresholds

__all__ = ["Watch", "error_rate", "watches"]

_MORE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
_LESS = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_SILENT = cloudwatch.TreatMissingData.NOT_BREACHING
_LOUD = cloudwatch.TreatMissingData.BREACHING


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """One alarm: it rings when the metric passes the threshold in `of` of the `last` periods."""

    name: str
    metric: cloudwatch.IMetric
    threshold: float
    #: Why somebody should know.
    reason: str
    #: Whether somebody is woken for it.
    page: bool = False
    comparison: cloudwatch.ComparisonOperator = _MORE
    missing: cloudwatch.TreatMissingData = _SILENT
    of: int = 3
    last: int = 5


def watches(
    metrics: EndpointMetrics, thresholds: Thresholds, cold_start: ColdStart
) -> Iterator[Watch]:
    """List what is watched of an endpoint."""
    yield from _speed(metrics, thresholds)
    yield from _starts(metrics, thresholds, cold_start)
    yield from _failures(metrics, thresholds)
    yield from _room(metrics, thresholds)
    if isinstance(cold_start, Provisioned):
        yield from _provisioned(metrics, thresholds, cold_start)
    yield from _silence(metrics, thresholds)


def error_rate(metrics: EndpointMetrics) -> cloudwatch.MathExpression:
    """Return failed invocations in percent of all; 0, not missing, where there are none."""
    return _percent(
        metrics.of_alias("Errors", "Sum"), metrics.of_alias("Invocations", "Sum"), "Errors, percent"
    )


def _speed(metrics: EndpointMetrics, thresholds: Thresholds) -> Iterator[Watch]:
    yield Watch(
        name="SlowMedian",
        metric=metrics.of_alias("Duration", "p50"),
        threshold=thresholds.duration_p50,
        reason="The median request takes over a tenth of the timeout, or what was set: "
        "texts have grown, or the processor is short",
    )
    yield Watch(
        name="SlowTail",
        metric=metrics.of_alias("Duration", "p99"),
        threshold=thresholds.duration_p99,
        page=True,
        reason="The slowest hundredth takes over half the timeout, or what was set: "
        "requests are about to fail",
    )


def _starts(
    metrics: EndpointMetrics, thresholds: Thresholds, cold_start: ColdStart
) -> Iterator[Watch]:
    # On demand, Lambda gives a start 10 s and then begins it again while the caller waits.
    yield Watch(
        name="SlowStart",
        metric=metrics.of_platform("InitDuration", "p99"),
        threshold=thresholds.init_p99,
        of=1,
        last=1,
        reason="Cold starts take half of the time that Lambda gives them, or what was set: "
        "the image is read slowly or the artifact has grown",
    )
    yield Watch(
        name="SlowestStart",
        metric=metrics.of_platform("InitDuration", "Maximum"),
        threshold=thresholds.init_maximum,
        of=1,
        last=1,
        reason="A cold start nearly took the 10 s after which Lambda begins it again, "
        "or what was set",
    )
    if isinstance(cold_start, Provisioned):
        yield Watch(
            name="SlowProvisionedStart",
            metric=metrics.of_platform("ProvisionedInitDuration", "Maximum"),
            threshold=thresholds.init_maximum,
            of=1,
            last=1,
            reason="An environment that is kept ready took long to start: "
            "scaling out follows the traffic late",
        )
    if isinstance(cold_start, SnapStart):
        yield Watch(
            name="SlowRestore",
            metric=metrics.of_platform("RestoreDuration", "p99"),
            threshold=thresholds.init_p99,
            of=1,
            last=1,
            reason="Restoring a snapshot takes long: a plain start may be faster",
        )


def _failures(metrics: EndpointMetrics, thresholds: Thresholds) -> Iterator[Watch]:
    yield Watch(
        name="Errors",
        metric=error_rate(metrics),
        threshold=thresholds.error_percent,
        page=True,
        reason="Invocations crash, or run out of time or memory",
    )
    yield Watch(
        name="UrlErrors",
        metric=_percent(
            metrics.of_alias("Url5xxCount", "Sum"),
            metrics.of_alias("UrlRequestCount", "Sum"),
            "URL 5xx, percent",
        ),
        threshold=thresholds.error_percent,
        page=True,
        reason="Callers get 5xx from the URL, whether or not the function saw the request",
    )
    yield Watch(
        name="Throttles",
        metric=_percent(
            metrics.of_alias("Throttles", "Sum"),
            metrics.of_alias("UrlRequestCount", "Sum"),
            "Throttled, percent",
        ),
        threshold=thresholds.throttle_percent,
        page=True,
        reason="Callers get 429: the reservation or the account's quota is used up",
    )


def _room(metrics: EndpointMetrics, thresholds: Thresholds) -> Iterator[Watch]:
    limit, percent = thresholds.concurrency_limit, thresholds.concurrency_percent
    yield Watch(
        name="Concurrency",
        metric=metrics.of_function("ConcurrentExecutions", "Maximum"),
        threshold=limit * percent / 100,
        reason=f"{percent:g}% of the {limit} requests that may run at once do: "
        "429 is what comes next",
    )
    yield Watch(
        name="AccountConcurrency",
        metric=metrics.of_account("ConcurrentExecutions", "Maximum"),
        threshold=thresholds.account_concurrency * percent / 100,
        reason=f"All functions together run {percent:g}% of the account's "
        f"{thresholds.account_concurrency} requests at once: every one of them may get 429",
    )
    yield Watch(
        name="Memory",
        metric=metrics.of_platform("MaxMemoryUsed", "Maximum"),
        threshold=thresholds.memory,
        reason="An environment used nearly all of its memory: the next larger request may end it",
    )


def _provisioned(
    metrics: EndpointMetrics, thresholds: Thresholds, cold_start: Provisioned
) -> Iterator[Watch]:
    yield Watch(
        name="Spillover",
        metric=metrics.of_alias("ProvisionedConcurrencySpilloverInvocations", "Sum"),
        threshold=0,
        reason="Requests went past the environments that are kept ready and paid a cold start",
    )
    yield Watch(
        name="ProvisionedUse",
        metric=metrics.of_alias("ProvisionedConcurrencyUtilization", "Maximum").with_(
            # Lambda counts it as a share of one.
            label="Busy, of one"
        ),
        # Of the highest utilization that AWS's limit of requests leaves.
        threshold=thresholds.provisioned_percent / 100 * cold_start.highest_utilization,
        of=15,
        last=15,
        reason="The environments that are kept ready have been busy for long: "
        "the ceiling is reached, or scaling is behind",
    )


def _silence(metrics: EndpointMetrics, thresholds: Thresholds) -> Iterator[Watch]:
    yield Watch(
        name="NoRecords",
        metric=cloudwatch.MathExpression(
            expression="IF(FILL(invocations, 0) > 0 AND FILL(records, 0) == 0, 1, 0)",
            using_metrics={
                "invocations": metrics.of_alias("Invocations", "Sum"),
                "records": metrics.of_platform("BilledDuration", "SampleCount"),
            },
            period=PERIOD,
            label="Invocations without a record",
        ),
        threshold=0,
        of=15,
        last=15,
        reason="Requests are answered and the log has no record of them: "
        "the alarms on starts and memory are blind",
    )
    if thresholds.silence is not None:
        yield Watch(
            name="NoTraffic",
            metric=metrics.of_alias("UrlRequestCount", "Sum").with_(period=Duration.minutes(5)),
            threshold=1,
            comparison=_LESS,
            missing=_LOUD,
            of=-(-thresholds.silence // 5),
            last=-(-thresholds.silence // 5),
            page=True,
            reason="No request came for longer than is normal here: callers cannot reach the URL, "
            "or may no longer",
        )


def _percent(
    part: cloudwatch.IMetric, whole: cloudwatch.IMetric, label: str
) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression="IF(whole > 0, 100 * part / whole, 0)",
        using_metrics={"part": part, "whole": whole},
        period=PERIOD,
        label=label,
    )
