"""The endpoint's metrics: of Lambda, of its URL, of the embedder and of the platform logs.

Lambda publishes no metric of initialization. Its duration is only in the JSON platform logs: in
`platform.report` for on-demand initialization and for SnapStart restores, in `platform.initReport`
for provisioned concurrency. Metric filters turn these logs into metrics. Their schema:
https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html
"""

from dataclasses import dataclass
from datetime import timedelta

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

#: The embedder's metrics per version. They count all requests: by the URL, by Invoke, or through
#: another service.
_VERSION_METRICS = ("Requests", "ServerErrors")
#: The period of every metric. Lambda publishes the metrics of a URL and of an alias each minute.
PERIOD = Duration.minutes(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlatformMetric:
    """A metric filter on the platform logs: its pattern, and the value that it extracts."""

    name: str
    pattern: str
    value: str
    unit: cloudwatch.Unit


def _report(field: str) -> tuple[str, str]:
    # The CDK renders `exists` as `= "*"`, which matches no number; a comparison does.
    value = f"$.record.metrics.{field}"
    return f'{{ $.type = "platform.report" && {value} > 0 }}', value


def _in_report(name: str, field: str, unit: cloudwatch.Unit) -> _PlatformMetric:
    pattern, value = _report(field)
    return _PlatformMetric(name=name, pattern=pattern, value=value, unit=unit)


PLATFORM_METRICS = (
    _in_report("InitDuration", "initDurationMs", cloudwatch.Unit.MILLISECONDS),
    _PlatformMetric(
        name="ProvisionedInitDuration",
        pattern='{ $.type = "platform.initReport" && '
        '$.record.initializationType = "provisioned-concurrency" }',
        value="$.record.metrics.durationMs",
        unit=cloudwatch.Unit.MILLISECONDS,
    ),
    _in_report("RestoreDuration", "restoreDurationMs", cloudwatch.Unit.MILLISECONDS),
    _in_report("MaxMemoryUsed", "maxMemoryUsedMB", cloudwatch.Unit.MEGABYTES),
    _in_report("BilledDuration", "billedDurationMs", cloudwatch.Unit.MILLISECONDS),
)


def milliseconds(span: timedelta) -> float:
    """Return a duration in milliseconds, the unit of Lambda's metrics."""
    return span / timedelta(milliseconds=1)


def percent(
    part: cloudwatch.IMetric, whole: cloudwatch.IMetric, label: str
) -> cloudwatch.MathExpression:
    """Return a part in percent of a whole; 0, not missing data, while the whole is 0."""
    return cloudwatch.MathExpression(
        expression="IF(whole > 0, 100 * part / whole, 0)",
        using_metrics={"part": part, "whole": whole},
        period=PERIOD,
        label=label,
    )


def add_metric_filters(scope: Construct, log_group: logs.ILogGroup, namespace: str) -> None:
    """Create the metric filters on a function's log group.

    Args:
        scope: The parent.
        log_group: The function's log group, in JSON format with system log level INFO.
        namespace: A CloudWatch namespace that only this endpoint uses.
    """
    for metric in PLATFORM_METRICS:
        logs.MetricFilter(
            scope,
            metric.name,
            log_group=log_group,
            filter_pattern=logs.FilterPattern.literal(metric.pattern),
            metric_namespace=namespace,
            metric_name=metric.name,
            metric_value=metric.value,
            unit=metric.unit,
        )


class EndpointMetrics:
    """All metrics of an endpoint, with a period of one minute.

    Attributes:
        namespace: The namespace of the filters' and the embedder's metrics.
    """

    def __init__(self, function: lambda_.IFunction, *, alias_name: str, namespace: str) -> None:
        """Name the metrics.

        Args:
            function: The function.
            alias_name: The alias that callers invoke.
            namespace: The namespace of the filters' and the embedder's metrics.
        """
        self.namespace = namespace
        self._function = function
        self._alias = {
            "FunctionName": function.function_name,
            # Not the alias's own name: alarms on it would make a cycle with CodeDeploy.
            "Resource": f"{function.function_name}:{alias_name}",
        }

    def of_alias(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a Lambda metric of the alias or of its URL, such as `Duration`."""
        return self.of_function(name, statistic, label).with_(dimensions_map=self._alias)

    def of_version(self, version: str, name: str, statistic: str) -> cloudwatch.Metric:
        """Return a Lambda metric of a version behind the alias, during a release."""
        return self.of_alias(name, statistic).with_(
            dimensions_map={**self._alias, "ExecutedVersion": version}
        )

    def of_function(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a Lambda metric of the function, over all versions and aliases."""
        return self._function.metric(name, statistic=statistic, period=PERIOD, label=label)

    def of_account(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a Lambda metric of all functions of the account in the region."""
        return self._metric("AWS/Lambda", name, statistic, label)

    def of_platform(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a metric of a metric filter, by its name in `PLATFORM_METRICS`."""
        if name not in {metric.name for metric in PLATFORM_METRICS}:
            known = ", ".join(metric.name for metric in PLATFORM_METRICS)
            raise ValueError(f"no metric filter has this name; found: {name!r}; allowed: {known}")
        return self._metric(self.namespace, name, statistic, label)

    def of_embedder(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a metric that the embedder writes for each request, such as `Texts`."""
        return self._metric(self.namespace, name, statistic, label).with_(
            dimensions_map={"FunctionName": self._function.function_name}
        )

    def of_embedders_version(self, version: str, name: str, statistic: str) -> cloudwatch.Metric:
        """Return a metric that the embedder writes by version: requests or server errors."""
        if name not in _VERSION_METRICS:
            known = ", ".join(_VERSION_METRICS)
            raise ValueError(
                f"no metric per version has this name; found: {name!r}; allowed: {known}"
            )
        return self._metric(self.namespace, name, statistic).with_(
            dimensions_map={"FunctionName": self._function.function_name, "Version": version}
        )

    def error_rate(self) -> cloudwatch.MathExpression:
        """Return failed invocations in percent of all."""
        errors, invocations = (self.of_alias(n, "Sum") for n in ("Errors", "Invocations"))
        return percent(errors, invocations, "Errors, percent")

    def _metric(
        self, namespace: str, name: str, statistic: str, label: str | None = None
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=namespace, metric_name=name, statistic=statistic, period=PERIOD, label=label
        )
