"""The endpoint's metrics: Lambda's own, its URL's, the embedder's, and those in the platform's log.

Lambda has no metric of initialisation. It stands in the JSON records that the platform writes to
the function's log group, in one place for starts on demand (`platform.report`), in another for
environments kept ready (`platform.initReport`), and in a third for restored ones. Metric filters
make metrics of them. Their schema: https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html
"""

from dataclasses import dataclass

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

__all__ = ["PERIOD", "PLATFORM_METRICS", "VERSION_METRICS", "EndpointMetrics", "PlatformMetric"]

#: What the embedder writes for each version, whichever way its requests come: by the URL, by
#: Invoke, or by another service in front.
VERSION_METRICS = ("Requests", "ServerErrors")
#: The period of every metric here: a URL's and an alias's metrics come by the minute.
PERIOD = Duration.minutes(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformMetric:
    """A metric made of the platform's records: which records, and which of their values."""

    name: str
    pattern: str
    value: str
    unit: cloudwatch.Unit


def _report(field: str) -> tuple[str, str]:
    # `exists` would be rendered as `= "*"`, which no number equals; a comparison asks for a number.
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
    """Makes the metric filters on a function's log group, and names every metric of an endpoint.

    Attributes:
        namespace: Where the filters' metrics and the embedder's own stand.
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
        """Make the filters.

        Args:
            scope: The parent.
            id: The construct's id.
            alias: The alias that is called.
            log_group: Where the function and the platform write, as JSON at system level INFO.
            namespace: A CloudWatch namespace of this endpoint alone.
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
        """Return a metric that Lambda keeps of the alias, such as `Duration`, or of its URL."""
        return self._alias.metric(name, statistic=statistic, period=PERIOD, label=label)

    def of_version(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a metric of the alias's newest version alone, while the alias has two."""
        return self.of_alias(name, statistic, label).with_(
            dimensions_map={
                "FunctionName": self._function.function_name,
                "Resource": f"{self._function.function_name}:{self._alias.alias_name}",
                "ExecutedVersion": self._alias.version.version,
            }
        )

    def of_function(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a metric that Lambda keeps of the whole function."""
        return self._function.metric(name, statistic=statistic, period=PERIOD, label=label)

    def of_account(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a metric that Lambda keeps of all functions of the account and region."""
        return self._metric("AWS/Lambda", name, statistic, label)

    def of_platform(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a metric that a filter makes, by its name in `PLATFORM_METRICS`."""
        if name not in {metric.name for metric in PLATFORM_METRICS}:
            known = ", ".join(metric.name for metric in PLATFORM_METRICS)
            raise ValueError(f"no filter makes the metric {name!r}; allowed: {known}")
        return self._metric(self.namespace, name, statistic, label)

    def of_embedder(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a metric that the embedder writes with each request, such as `Texts`."""
        return self._metric(self.namespace, name, statistic, label).with_(
            dimensions_map={"FunctionName": self._function.function_name}
        )

    def of_embedders_version(
        self, name: str, statistic: str, label: str | None = None
    ) -> cloudwatch.Metric:
        """Return a metric that the alias's newest version alone writes: see `VERSION_METRICS`."""
        if name not in VERSION_METRICS:
            known = ", ".join(VERSION_METRICS)
            raise ValueError(f"no version writes the metric {name!r}; allowed: {known}")
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
