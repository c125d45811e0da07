"""The endpoint's metrics: of Lambda, of its URL, of the embedder and of the platform logs.

Lambda publishes no metric of initialization. Its duration is only in the JSON platform logs: in
`platform.report` for on-demand initialization and for SnapStart restores, in `platform.initReport`
for provisioned concurrency. Metric filters turn these logs into metrics. Their schema:
https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html
"""

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

__all__ = ["PERIOD", "PLATFORM_METRICS", "VERSION_METRICS", "EndpointMetrics", "PlatformMetric"]

#: The embedder's metrics per version. They count all requests: by the URL, by Invoke, or through
#: another service.
VERSION_METRICS = ("Requests", "ServerErrors")
#: The period of every metric. Lambda publishes the metrics of a URL and of an alias each minute.
PERIOD = Duration.minutes(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMetric:
    """A metric filter on the platform logs: its pattern, and the value that it extracts."""

    name: str
    pattern: str
    value: str
    unit: cloudwatch.Unit


def _report(field: str) -> tuple[str, str]:
    # The CDK renders `exists` as `= "*"`, which matches no number; a comparison does.
    value = f"$.record.metrics.{field}"
    return f'{{ $.type = "platform.report" && {value} > 0 }}', value


def _in_report(name: str, field: str, unit: cloudwatch.Unit) -> PlatformMetric:
    pattern, value = _report(field)
    return PlatformMetric(name=name, pattern=pattern, value=value, unit=unit)


PLATFORM_METRICS = (
    _in_report("InitDuration", "initDurationMs", cloudwatch.Unit.MILLISECONDS),
    PlatformMetric(
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


class EndpointMetrics(Construct):
    """The metric filters on a function's log group, and all metrics of an endpoint.

    Attributes:
        namespace: The namespace of the filters' and the embedder's metrics.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        alias: lambda_.Alias,
        log_group: logs.ILogGroup,
        namespace: str,
    ) -> None:
        """Create the metric filters.

        Args:
            scope: The parent.
            id: The construct's id.
            alias: The alias that callers invoke.
            log_group: The function's log group, in JSON format with system log level INFO.
            namespace: A CloudWatch namespace that only this endpoint uses.
        """
        super().__init__(scope, id)
        self.namespace = namespace
        self._alias = alias
        self._function = alias.version.lambda_
        for metric in PLATFORM_METRICS:
            logs.MetricFilter(
                self,
                metric.name,
                log_group=log_group,
                filter_pattern=logs.FilterPattern.literal(metric.pattern),
                metric_namespace=namespace,
                metric_name=metric.name,
                metric_value=metric.value,
                unit=metric.unit,
            )

    def of_alias(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a Lambda metric of the alias or of its URL, such as `Duration`."""
        return self._alias.metric(name, statistic=statistic, period=PERIOD, label=label)

    def of_version(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a Lambda metric of the alias's new version, during a release."""
        return self.of_alias(name, statistic, label).with_(
            dimensions_map={
                "FunctionName": self._function.function_name,
                "Resource": f"{self._function.function_name}:{self._alias.alias_name}",
                "ExecutedVersion": self._alias.version.version,
            }
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

    def of_embedders_version(
        self, name: str, statistic: str, label: str | None = None
    ) -> cloudwatch.Metric:
        """Return a metric of the alias's new version, by its name in `VERSION_METRICS`."""
        if name not in VERSION_METRICS:
            known = ", ".join(VERSION_METRICS)
            raise ValueError(
                f"no metric per version has this name; found: {name!r}; allowed: {known}"
            )
        return self._metric(self.namespace, name, statistic, label).with_(
            dimensions_map={
                "FunctionName": self._function.function_name,
                "Version": self._alias.version.version,
            }
        )

    def _metric(
        self, namespace: str, name: str, statistic: str, label: str | None = None
    ) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=namespace, metric_name=name, statistic=statistic, period=PERIOD, label=label
        )
