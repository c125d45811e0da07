"""Each alarm's metric, threshold and text, as plain values."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from embedding_kit.monitoring.metrics import PERIOD, EndpointMetrics
from embedding_kit.settings import (
    AlarmSettings,
    ColdStart,
    FunctionSettings,
    Provisioned,
    Release,
    SnapStart,
)

__all__ = ["AlarmDefinition", "alarm_definitions", "error_rate", "milliseconds"]

_ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD
_BELOW = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD
_NOT_BREACHING = cloudwatch.TreatMissingData.NOT_BREACHING
_BREACHING = cloudwatch.TreatMissingData.BREACHING


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmDefinition:
    """One alarm. It goes into ALARM when `datapoints` of the last `periods` breach the threshold.

    Attributes:
        name: The alarm's name, and in lower case its section in the runbook.
        metric: The metric or the metric math.
        threshold: The threshold in the metric's unit.
        condition: The condition in words, with the number, without the time: "p99 duration above
            15,000 ms".
        advice: The likely cause or the consequence, as one sentence without a full stop.
        page: Whether the alarm is part of the composite alarm that pages.
    """

    name: str
    metric: cloudwatch.IMetric
    threshold: float
    condition: str
    advice: str
    page: bool = False
    comparison: cloudwatch.ComparisonOperator = _ABOVE
    missing: cloudwatch.TreatMissingData = _NOT_BREACHING
    datapoints: int = 3
    periods: int = 5
    period_minutes: int = 1

    @property
    def description(self) -> str:
        """The alarm's text without the link to the runbook."""
        datapoints = self.datapoints * self.period_minutes
        minutes = self.periods * self.period_minutes
        of = "" if datapoints == minutes else f"{datapoints} of "
        unit = "minute" if minutes == 1 else "minutes"
        return f"{self.condition} for {of}{minutes} {unit}. {self.advice}"


def alarm_definitions(
    metrics: EndpointMetrics,
    alarms: AlarmSettings,
    function: FunctionSettings,
    cold_start: ColdStart,
    release: Release,
) -> Iterator[AlarmDefinition]:
    """List the alarms of an endpoint."""
    yield from _duration(metrics, alarms, function)
    yield from _init_duration(metrics, alarms, cold_start)
    yield from _errors(metrics, alarms)
    yield from _capacity(metrics, alarms, function)
    if isinstance(cold_start, Provisioned):
        yield from _provisioned(metrics, alarms, cold_start)
        yield _other_version_traffic(metrics, release)
    yield from _missing(metrics, alarms)


def error_rate(metrics: EndpointMetrics) -> cloudwatch.MathExpression:
    """Return failed invocations in percent of all; 0, not missing data, without invocations."""
    return _percent(
        metrics.of_alias("Errors", "Sum"), metrics.of_alias("Invocations", "Sum"), "Errors, percent"
    )


def milliseconds(span: timedelta) -> float:
    """Return a duration in milliseconds, the unit of Lambda's metrics."""
    return span / timedelta(milliseconds=1)


def _duration(
    metrics: EndpointMetrics, alarms: AlarmSettings, function: FunctionSettings
) -> Iterator[AlarmDefinition]:
    p50 = milliseconds(alarms.effective_duration_p50(function.timeout))
    yield AlarmDefinition(
        name="DurationP50",
        metric=metrics.of_alias("Duration", "p50"),
        threshold=p50,
        condition=f"p50 duration above {p50:,g} ms",
        advice="Likely longer texts, larger batches, or too little CPU",
    )
    p99 = milliseconds(alarms.effective_duration_p99(function.timeout))
    timeout = milliseconds(function.timeout)
    yield AlarmDefinition(
        name="DurationP99",
        metric=metrics.of_alias("Duration", "p99"),
        threshold=p99,
        page=True,
        condition=f"p99 duration above {p99:,g} ms",
        advice=f"Likely large batches or cold starts. Requests fail at the timeout of {timeout:,g} "
        "ms",
    )


def _init_duration(
    metrics: EndpointMetrics, alarms: AlarmSettings, cold_start: ColdStart
) -> Iterator[AlarmDefinition]:
    # On demand, Lambda stops an initialization after 10 s and repeats it while the caller waits.
    p99 = milliseconds(alarms.effective_init_p99)
    longest = milliseconds(alarms.init_max)
    yield AlarmDefinition(
        name="InitDurationP99",
        metric=metrics.of_platform("InitDuration", "p99"),
        threshold=p99,
        datapoints=1,
        periods=1,
        condition=f"p99 init duration above {p99:,g} ms",
        advice="Lambda's limit is 10,000 ms. Likely a new image that is not cached yet, or a "
        "larger artifact",
    )
    yield AlarmDefinition(
        name="InitDurationMax",
        metric=metrics.of_platform("InitDuration", "Maximum"),
        threshold=longest,
        datapoints=1,
        periods=1,
        condition=f"Maximum init duration above {longest:,g} ms",
        advice="At 10,000 ms Lambda restarts the initialization while the caller waits",
    )
    if isinstance(cold_start, Provisioned):
        yield AlarmDefinition(
            name="ProvisionedInitDurationMax",
            metric=metrics.of_platform("ProvisionedInitDuration", "Maximum"),
            threshold=longest,
            datapoints=1,
            periods=1,
            condition=f"Maximum init duration of provisioned concurrency above {longest:,g} ms",
            advice="Autoscaling adds capacity late",
        )
    if isinstance(cold_start, SnapStart):
        yield AlarmDefinition(
            name="RestoreDurationP99",
            metric=metrics.of_platform("RestoreDuration", "p99"),
            threshold=p99,
            datapoints=1,
            periods=1,
            condition=f"p99 restore duration above {p99:,g} ms",
            advice="Cold starts without SnapStart may be faster",
        )


def _errors(metrics: EndpointMetrics, alarms: AlarmSettings) -> Iterator[AlarmDefinition]:
    yield AlarmDefinition(
        name="Errors",
        metric=error_rate(metrics),
        threshold=alarms.error_percent,
        page=True,
        condition=f"Failed invocations above {alarms.error_percent:g}%",
        advice="Invocations crash, time out or run out of memory",
    )
    yield AlarmDefinition(
        name="Url5xx",
        metric=_percent(
            metrics.of_alias("Url5xxCount", "Sum"),
            metrics.of_alias("UrlRequestCount", "Sum"),
            "URL 5xx, percent",
        ),
        threshold=alarms.error_percent,
        page=True,
        condition=f"5xx responses of the URL above {alarms.error_percent:g}%",
        advice="The function failed, or Lambda rejected the request before it reached the function",
    )
    yield AlarmDefinition(
        name="Throttles",
        metric=_percent(
            metrics.of_alias("Throttles", "Sum"),
            metrics.of_alias("UrlRequestCount", "Sum"),
            "Throttled, percent",
        ),
        threshold=alarms.throttle_percent,
        page=True,
        condition=f"Throttled requests (429) above {alarms.throttle_percent:g}%",
        advice="The reserved concurrency or the account's concurrency quota is used up",
    )


def _capacity(
    metrics: EndpointMetrics, alarms: AlarmSettings, function: FunctionSettings
) -> Iterator[AlarmDefinition]:
    percent, limit, quota = (
        alarms.concurrency_percent,
        function.concurrency_limit,
        function.account_concurrency,
    )
    yield AlarmDefinition(
        name="Concurrency",
        metric=metrics.of_function("ConcurrentExecutions", "Maximum"),
        threshold=limit * percent / 100,
        condition=f"Concurrency above {limit * percent / 100:,g} of {limit:,} ({percent:g}%)",
        advice="Throttling is next",
    )
    yield AlarmDefinition(
        name="AccountConcurrency",
        metric=metrics.of_account("ConcurrentExecutions", "Maximum"),
        threshold=quota * percent / 100,
        condition="Concurrency of all functions of the account above "
        f"{quota * percent / 100:,g} of {quota:,} ({percent:g}%)",
        advice="Throttling of every function without reserved concurrency is next",
    )
    memory = function.memory_mb * alarms.memory_percent / 100
    yield AlarmDefinition(
        name="Memory",
        metric=metrics.of_platform("MaxMemoryUsed", "Maximum"),
        threshold=memory,
        condition=f"Memory above {memory:,g} of {function.memory_mb:,} MB",
        advice="A larger request may run out of memory",
    )


def _provisioned(
    metrics: EndpointMetrics, alarms: AlarmSettings, cold_start: Provisioned
) -> Iterator[AlarmDefinition]:
    yield AlarmDefinition(
        name="ProvisionedConcurrencySpillover",
        metric=metrics.of_alias("ProvisionedConcurrencySpilloverInvocations", "Sum"),
        threshold=0,
        condition="Invocations beyond the provisioned concurrency",
        advice="These requests had cold starts",
    )
    # A share of the highest utilization that AWS's limit of requests per second allows.
    utilization = alarms.provisioned_percent / 100 * cold_start.highest_utilization
    yield AlarmDefinition(
        name="ProvisionedConcurrencyUtilization",
        metric=metrics.of_alias("ProvisionedConcurrencyUtilization", "Maximum").with_(
            label="Utilization, 0 to 1"
        ),
        threshold=utilization,
        datapoints=15,
        periods=15,
        condition=f"Utilization of the provisioned concurrency above {100 * utilization:.3g}%",
        advice="The maximum is reached, or autoscaling lags behind the traffic",
    )


def _other_version_traffic(metrics: EndpointMetrics, release: Release) -> AlarmDefinition:
    """Return the alarm for weights that a failed release left on the alias.

    A version that cannot start under provisioned concurrency can leave them, and AWS then refuses
    every change of the provisioned concurrency. During a release they are normal, so the alarm
    covers a longer time than a release takes.
    """
    # CloudWatch evaluates up to a day of shorter periods, and up to a week of hours:
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
    covered = release.shift + timedelta(minutes=30)
    minutes = 5 if covered <= timedelta(days=1) else 60
    periods = -(-covered // timedelta(minutes=minutes))
    period = Duration.minutes(minutes)
    sources = {
        "invocations": metrics.of_alias("Invocations", "Sum"),
        # Only Lambda counts a crash, because the embedder writes no metric for it.
        "errors": metrics.of_alias("Errors", "Sum"),
        "deployed": metrics.of_embedders_version("Requests", "Sum"),
    }
    return AlarmDefinition(
        name="OtherVersionTraffic",
        metric=cloudwatch.MathExpression(
            # Without an invocation the division gives no data, and the alarm keeps its state.
            expression="100 * (invocations - FILL(errors, 0) - FILL(deployed, 0)) / invocations",
            using_metrics={name: metric.with_(period=period) for name, metric in sources.items()},
            period=period,
            label="Requests that another version answered, percent",
        ),
        # The two sources count a request in slightly different minutes.
        threshold=5,
        missing=cloudwatch.TreatMissingData.IGNORE,
        datapoints=periods,
        periods=periods,
        period_minutes=minutes,
        condition="More than 5% of the requests answered by another version than the deployed one",
        advice="A failed release may have left its weights on the alias",
    )


def _missing(metrics: EndpointMetrics, alarms: AlarmSettings) -> Iterator[AlarmDefinition]:
    yield AlarmDefinition(
        name="MissingPlatformLogs",
        metric=cloudwatch.MathExpression(
            expression="IF(FILL(invocations, 0) > 0 AND FILL(records, 0) == 0, 1, 0)",
            using_metrics={
                "invocations": metrics.of_alias("Invocations", "Sum"),
                "records": metrics.of_platform("BilledDuration", "SampleCount"),
            },
            period=PERIOD,
            label="Invocations without platform logs",
        ),
        threshold=0,
        datapoints=15,
        periods=15,
        condition="Invocations without platform logs",
        advice="The alarms on init duration and memory have no data",
    )
    if alarms.traffic_every is not None:
        periods = alarms.traffic_every // timedelta(minutes=5)
        yield AlarmDefinition(
            name="NoTraffic",
            metric=metrics.of_alias("UrlRequestCount", "Sum").with_(period=Duration.minutes(5)),
            threshold=1,
            comparison=_BELOW,
            missing=_BREACHING,
            datapoints=periods,
            periods=periods,
            period_minutes=5,
            page=True,
            condition="No requests",
            advice="Callers cannot reach the URL or have lost permission",
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
