"""Each alarm's metric, threshold and text, as plain values."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch

from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.endpoint_metrics import computed, milliseconds, percent
from embedding_kit.settings import Provisioned, SnapStart, Watch

#: On demand, Lambda stops an initialization after 10 s and repeats it while the caller waits.
#: https://docs.aws.amazon.com/lambda/latest/dg/lambda-runtime-environment.html
_INIT_P99_MS, _INIT_MAX_MS = 5000, 8000
#: Percent of what there is, above which an alarm says that it is nearly used up.
_CONCURRENCY_PERCENT, MEMORY_PERCENT, _PROVISIONED_PERCENT = 80, 90, 90
#: Ends the names of warnings.
_WARNING = "Warning"
#: Half more than CloudWatch's default of 2, outside which one of twenty normal values is.
_BAND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class AlarmDefinition:
    """One alarm. It goes into ALARM when three of the last five periods breach the threshold.

    Attributes:
        name: The alarm's name.
        metric: The metric or the metric math.
        threshold: The threshold in the metric's unit.
        condition: The condition in words, without the time. `{:,g}` is replaced by the threshold.
        advice: The likely cause or the consequence, as one sentence without a full stop.
        page: Whether the alarm pages; those of the endpoint by one composite alarm.
        essential: Whether it says that requests fail or are slow, and not only why they may. One
            that pages does.
        anomaly: Whether the threshold is the width of the band of expected values, in standard
            deviations. The alarm fires above the band, with `below` also below it.
        every: The number of periods of which all must breach the threshold instead.
    """

    name: str
    metric: cloudwatch.IMetric
    threshold: float
    condition: str
    advice: str
    page: bool = False
    essential: bool = False
    anomaly: bool = False
    below: bool = False
    missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING
    every: int | None = None
    period_minutes: int = 1

    @property
    def breaches(self) -> tuple[int, int]:
        """How many periods must breach the threshold, and of how many."""
        return (self.every, self.every) if self.every else (3, 5)

    @property
    def section(self) -> str:
        """The section of the runbook; a warning has that of the alarm that pages."""
        return self.name.removesuffix(_WARNING).lower()

    @property
    def description(self) -> str:
        """The alarm's text without the link to the runbook."""
        breaching, minutes = (periods * self.period_minutes for periods in self.breaches)
        of = "" if breaching == minutes else f"{breaching} of "
        unit = "minute" if minutes == 1 else "minutes"
        return f"{self.condition.format(self.threshold)} for {of}{minutes} {unit}. {self.advice}"


def watched(definitions: Iterable[AlarmDefinition], watch: Watch) -> list[AlarmDefinition]:
    """Return the essential definitions, or all of them."""
    return [
        definition
        for definition in definitions
        if definition.essential or definition.page or watch == "full"
    ]


def with_warnings(
    definitions: Iterable[AlarmDefinition], percent: float | None
) -> Iterator[AlarmDefinition]:
    """Add a warning to each alarm that pages above a threshold, at a percentage of it."""
    for definition in definitions:
        yield definition
        if percent is not None and definition.page and not definition.below:
            yield replace(
                definition,
                name=definition.name + _WARNING,
                threshold=definition.threshold * percent / 100,
                page=False,
                essential=True,
            )


def alarm_definitions(endpoint: EmbeddingEndpoint) -> Iterator[AlarmDefinition]:
    """List the alarms of an endpoint."""
    yield from _duration(endpoint)
    yield from _init_duration(endpoint)
    yield from _errors(endpoint)
    yield from _capacity(endpoint)
    if isinstance(endpoint.cold_start, Provisioned):
        yield from _provisioned(endpoint, endpoint.cold_start)
        yield _other_version_traffic(endpoint)
    yield from _missing(endpoint)
    if endpoint.alarm_settings.anomalies:
        yield from _anomalies(endpoint)


def _duration(endpoint: EmbeddingEndpoint) -> Iterator[AlarmDefinition]:
    metrics, alarms, timeout = endpoint.metrics, endpoint.alarm_settings, endpoint.settings.timeout
    yield AlarmDefinition(
        name="DurationP50",
        essential=True,
        metric=metrics.of_alias("Duration", "p50"),
        threshold=milliseconds(alarms.effective_duration_p50(timeout)),
        condition="p50 duration above {:,g} ms",
        advice="Likely longer texts, larger batches, or too little CPU",
    )
    yield AlarmDefinition(
        name="DurationP99",
        metric=metrics.of_alias("Duration", "p99"),
        threshold=milliseconds(alarms.effective_duration_p99(timeout)),
        page=True,
        condition="p99 duration above {:,g} ms",
        advice="Likely large batches or cold starts. Requests fail at the timeout of "
        f"{milliseconds(timeout):,g} ms",
    )


def _init_duration(endpoint: EmbeddingEndpoint) -> Iterator[AlarmDefinition]:
    def alarm(metric: str, statistic: str, limit: float, what: str, advice: str) -> AlarmDefinition:
        return AlarmDefinition(
            name=metric + ("Max" if statistic == "Maximum" else "P99"),
            essential=True,
            metric=endpoint.metrics.of_platform(metric, statistic),
            threshold=limit,
            every=1,
            condition=f"{what} above {{:,g}} ms",
            advice=advice,
        )

    yield alarm(
        "InitDuration",
        "p99",
        _INIT_P99_MS,
        "p99 init duration",
        "Lambda's limit is 10,000 ms. Likely a new image that is not cached yet, or a larger "
        "artifact",
    )
    yield alarm(
        "InitDuration",
        "Maximum",
        _INIT_MAX_MS,
        "Maximum init duration",
        "At 10,000 ms Lambda restarts the initialization while the caller waits",
    )
    if isinstance(endpoint.cold_start, Provisioned):
        yield alarm(
            "ProvisionedInitDuration",
            "Maximum",
            _INIT_MAX_MS,
            "Maximum init duration of provisioned concurrency",
            "Autoscaling adds capacity late",
        )
    if isinstance(endpoint.cold_start, SnapStart):
        yield alarm(
            "RestoreDuration",
            "p99",
            _INIT_P99_MS,
            "p99 restore duration",
            "Cold starts without SnapStart may be faster",
        )


def _errors(endpoint: EmbeddingEndpoint) -> Iterator[AlarmDefinition]:
    metrics, alarms = endpoint.metrics, endpoint.alarm_settings
    requests = metrics.of_alias("UrlRequestCount", "Sum")
    yield AlarmDefinition(
        name="Errors",
        metric=metrics.error_rate(),
        threshold=alarms.error_percent,
        page=True,
        condition="Failed invocations above {:,g}%",
        advice="Invocations crash, time out or run out of memory",
    )
    yield AlarmDefinition(
        name="Url5xx",
        metric=percent(metrics.of_alias("Url5xxCount", "Sum"), requests, "URL 5xx, percent"),
        threshold=alarms.error_percent,
        page=True,
        condition="5xx responses of the URL above {:,g}%",
        advice="The function failed, or Lambda rejected the request before it reached the function",
    )
    yield AlarmDefinition(
        name="Throttles",
        metric=_throttled(endpoint),
        threshold=alarms.error_percent,
        page=True,
        condition="Throttled requests (429) above {:,g}%",
        advice="The reserved concurrency or the account's concurrency quota is used up",
    )


def _throttled(endpoint: EmbeddingEndpoint) -> cloudwatch.IMetric:
    metrics, label = endpoint.metrics, "Throttled, percent"
    throttles = metrics.of_alias("Throttles", "Sum")
    if not endpoint.is_invoked:
        return percent(throttles, metrics.of_alias("UrlRequestCount", "Sum"), label)
    # The URL's count has no calls of Lambda's Invoke, and that of invocations no throttled calls.
    return computed(
        "IF(passed + throttled > 0, 100 * throttled / (passed + throttled), 0)",
        {"throttled": throttles, "passed": metrics.of_alias("Invocations", "Sum")},
        label,
    )


def _capacity(endpoint: EmbeddingEndpoint) -> Iterator[AlarmDefinition]:
    metrics, function = endpoint.metrics, endpoint.settings
    limit, quota = function.concurrency_limit, function.account_concurrency
    yield AlarmDefinition(
        name="Concurrency",
        metric=metrics.of_function("ConcurrentExecutions", "Maximum"),
        threshold=limit * _CONCURRENCY_PERCENT / 100,
        condition=f"Concurrency above {{:,g}} of {limit:,} ({_CONCURRENCY_PERCENT}%)",
        advice="Throttling is next",
    )
    yield AlarmDefinition(
        name="AccountConcurrency",
        metric=metrics.of_account("ConcurrentExecutions", "Maximum"),
        threshold=quota * _CONCURRENCY_PERCENT / 100,
        condition="Concurrency of all functions of the account above "
        f"{{:,g}} of {quota:,} ({_CONCURRENCY_PERCENT}%)",
        advice="Throttling of every function without reserved concurrency is next",
    )
    yield AlarmDefinition(
        name="Memory",
        metric=metrics.of_platform("MaxMemoryUsed", "Maximum"),
        threshold=function.memory_mb * MEMORY_PERCENT / 100,
        condition=f"Memory above {{:,g}} of {function.memory_mb:,} MB",
        advice="A larger request may run out of memory",
    )


def _provisioned(endpoint: EmbeddingEndpoint, cold_start: Provisioned) -> Iterator[AlarmDefinition]:
    metrics = endpoint.metrics
    yield AlarmDefinition(
        name="ProvisionedConcurrencySpillover",
        metric=metrics.of_alias("ProvisionedConcurrencySpilloverInvocations", "Sum"),
        threshold=0,
        condition="Invocations beyond the provisioned concurrency",
        advice="These requests had cold starts",
    )
    # A share of the highest utilization that AWS's limit of requests per second allows.
    utilization = _PROVISIONED_PERCENT / 100 * cold_start.highest_utilization
    yield AlarmDefinition(
        name="ProvisionedConcurrencyUtilization",
        metric=metrics.of_alias("ProvisionedConcurrencyUtilization", "Maximum").with_(
            label="Utilization, 0 to 1"
        ),
        threshold=utilization,
        every=15,
        condition=f"Utilization of the provisioned concurrency above {100 * utilization:.3g}%",
        advice="The maximum is reached, or autoscaling lags behind the traffic",
    )


def _other_version_traffic(endpoint: EmbeddingEndpoint) -> AlarmDefinition:
    """Return the alarm for weights that a failed release left on the alias.

    A version that cannot start under provisioned concurrency can leave them, and AWS then refuses
    every change of the provisioned concurrency. During a release they are normal, so the alarm
    covers a longer time than a release takes.
    """
    # CloudWatch evaluates up to a day of shorter periods, and up to a week of hours:
    # https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutMetricAlarm.html
    covered = endpoint.release.shift + timedelta(minutes=30)
    minutes = 5 if covered <= timedelta(days=1) else 60
    period = Duration.minutes(minutes)
    metrics, version = endpoint.metrics, endpoint.alias.version.version
    sources = {
        "invocations": metrics.of_alias("Invocations", "Sum"),
        # Only Lambda counts a crash, because the embedder writes no metric for it.
        "errors": metrics.of_alias("Errors", "Sum"),
        "deployed": metrics.of_embedders_version(version, "Requests", "Sum"),
    }
    return AlarmDefinition(
        name="OtherVersionTraffic",
        metric=computed(
            # Without a request of the deployed version there is no data, and the alarm keeps its
            # state: after a release, the periods before it have none.
            "100 * (invocations - FILL(errors, 0) - deployed) / invocations",
            {name: metric.with_(period=period) for name, metric in sources.items()},
            "Requests that another version answered, percent",
            period=period,
        ),
        # The two sources count a request in slightly different minutes.
        threshold=5,
        missing=cloudwatch.TreatMissingData.IGNORE,
        every=-(-covered // timedelta(minutes=minutes)),
        period_minutes=minutes,
        condition="More than 5% of the requests answered by another version than the deployed one",
        advice="A failed release may have left its weights on the alias",
    )


def _missing(endpoint: EmbeddingEndpoint) -> Iterator[AlarmDefinition]:
    metrics, every = endpoint.metrics, endpoint.alarm_settings.expected_traffic_interval
    yield AlarmDefinition(
        name="MissingPlatformLogs",
        metric=computed(
            "IF(FILL(invocations, 0) > 0 AND FILL(records, 0) == 0, 1, 0)",
            {
                "invocations": metrics.of_alias("Invocations", "Sum"),
                "records": metrics.of_platform("BilledDuration", "SampleCount"),
            },
            "Invocations without platform logs",
        ),
        threshold=0,
        every=15,
        condition="Invocations without platform logs",
        advice="The alarms on init duration and memory have no data",
    )
    if every is not None:
        yield AlarmDefinition(
            name="NoTraffic",
            # The URL's count has no calls of Lambda's Invoke.
            metric=metrics.of_alias(
                "Invocations" if endpoint.is_invoked else "UrlRequestCount", "Sum"
            ).with_(period=Duration.minutes(5)),
            threshold=1,
            below=True,
            missing=cloudwatch.TreatMissingData.BREACHING,
            every=every // timedelta(minutes=5),
            period_minutes=5,
            page=True,
            condition="No requests",
            advice="Callers cannot reach the URL or have lost permission",
        )


def _anomalies(endpoint: EmbeddingEndpoint) -> Iterator[AlarmDefinition]:
    """List the alarms on metrics that are not what they were at such an hour before.

    AWS Cost Anomaly Detection is no part of a stack: its monitors of a tag belong to an
    organization's management account. The billed duration is what the cost of requests follows,
    and it is known after minutes instead of a day:
    https://docs.aws.amazon.com/cost-management/latest/userguide/getting-started-ad.html
    """
    metrics, minutes = endpoint.metrics, 5

    def alarm(
        name: str, metric: cloudwatch.Metric, condition: str, advice: str, *, below: bool = False
    ) -> AlarmDefinition:
        return AlarmDefinition(
            name=name,
            essential=True,
            metric=metric.with_(period=Duration.minutes(minutes)),
            threshold=_BAND,
            anomaly=True,
            below=below,
            every=3,
            period_minutes=minutes,
            condition=f"{condition} than usual at such an hour, by {{:,g}} standard deviations",
            advice=advice,
        )

    yield alarm(
        "TrafficAnomaly",
        metrics.of_alias("Invocations", "Sum"),
        "More or fewer requests",
        "Likely a new caller, a caller that repeats requests, or one that stopped",
        below=True,
    )
    yield alarm(
        "CostAnomaly",
        metrics.of_platform("BilledDuration", "Sum"),
        "More billed time",
        "Likely more or longer texts, or slower requests; the bill follows",
    )
