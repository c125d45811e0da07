"""The endpoint's metrics: of Lambda, of its URL, of the embedder and of the platform logs.

`monitoring/dashboard.py` draws them, and `monitoring/alarm_definitions.py` watches them.

Lambda publishes no metric of initialization. Its duration is only in the JSON platform logs: in
`platform.report` for on-demand initialization and for SnapStart restores, in `platform.initReport`
for provisioned concurrency. Metric filters turn these logs into metrics. Their schema:
https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html
"""

from collections.abc import Mapping
from datetime import timedelta

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

#: The period of every metric. Lambda publishes the metrics of a URL and of an alias each minute.
PERIOD = Duration.minutes(1)


def _report(field: str, unit: cloudwatch.Unit) -> tuple[str, str, cloudwatch.Unit]:
    # The CDK renders `exists` as `= "*"`, which matches no number; a comparison does.
    value = f"$.record.metrics.{field}"
    return f'{{ $.type = "platform.report" && {value} > 0 }}', value, unit


_MILLISECONDS = cloudwatch.Unit.MILLISECONDS
#: The metric filters on the platform logs: the pattern of each, and the value that it extracts.
PLATFORM_METRICS: dict[str, tuple[str, str, cloudwatch.Unit]] = {
    "InitDuration": _report("initDurationMs", _MILLISECONDS),
    "ProvisionedInitDuration": (
        (
            '{ $.type = "platform.initReport" && '
            '$.record.initializationType = "provisioned-concurrency" }'
        ),
        "$.record.metrics.durationMs",
        _MILLISECONDS,
    ),
    "RestoreDuration": _report("restoreDurationMs", _MILLISECONDS),
    "MaxMemoryUsed": _report("maxMemoryUsedMB", cloudwatch.Unit.MEGABYTES),
    "BilledDuration": _report("billedDurationMs", _MILLISECONDS),
}


def milliseconds(span: timedelta) -> float:
    """Return a duration in milliseconds, the unit of Lambda's metrics."""
    return span / timedelta(milliseconds=1)


def metric(
    namespace: str,
    name: str,
    statistic: str,
    label: str | None = None,
    dimensions: Mapping[str, str] | None = None,
) -> cloudwatch.Metric:
    """Return a metric by its name, with a period of one minute."""
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=name,
        dimensions_map=dimensions,
        statistic=statistic,
        period=PERIOD,
        label=label,
    )


def computed(
    expression: str,
    metrics: Mapping[str, cloudwatch.IMetric],
    label: str,
    *,
    period: Duration = PERIOD,
) -> cloudwatch.MathExpression:
    """Return an expression over metrics, by their names in it."""
    return cloudwatch.MathExpression(
        expression=expression, using_metrics=metrics, period=period, label=label
    )


def percent(
    part: cloudwatch.IMetric, whole: cloudwatch.IMetric, label: str
) -> cloudwatch.MathExpression:
    """Return a part in percent of a whole; 0, not missing data, while the whole is 0."""
    used = {"part": part, "whole": whole}
    return computed("IF(whole > 0, 100 * part / whole, 0)", used, label)


def add_metric_filters(scope: Construct, log_group: logs.ILogGroup, namespace: str) -> None:
    """Create the metric filters on a function's log group."""
    for name, (pattern, value, unit) in PLATFORM_METRICS.items():
        logs.MetricFilter(
            scope,
            name,
            log_group=log_group,
            filter_pattern=logs.FilterPattern.literal(pattern),
            metric_namespace=namespace,
            metric_name=name,
            metric_value=value,
            unit=unit,
        )


class EndpointMetrics:
    """All metrics of an endpoint, with a period of one minute.

    Attributes:
        namespace: The namespace of the filters' and the embedder's metrics.
    """

    def __init__(self, function: lambda_.IFunction, *, alias_name: str, namespace: str) -> None:
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
        return metric("AWS/Lambda", name, statistic, label)

    def of_platform(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a metric of a metric filter, by its name in `PLATFORM_METRICS`."""
        if name not in PLATFORM_METRICS:
            allowed = ", ".join(PLATFORM_METRICS)
            raise ValueError(f"no metric filter has this name; found: {name!r}; allowed: {allowed}")
        return metric(self.namespace, name, statistic, label)

    def of_embedder(self, name: str, statistic: str, label: str | None = None) -> cloudwatch.Metric:
        """Return a metric that the embedder writes for each request, such as `Texts`."""
        dimensions = {"FunctionName": self._function.function_name}
        return metric(self.namespace, name, statistic, label, dimensions)

    def of_embedders_version(self, version: str, name: str, statistic: str) -> cloudwatch.Metric:
        """Return a metric that the embedder writes by version: `Requests` or `ServerErrors`.

        They count all requests: by the URL, by Invoke, or through another service.
        """
        if name not in (allowed := ("Requests", "ServerErrors")):
            raise ValueError(
                f"no metric per version has this name; found: {name!r}; "
                f"allowed: {', '.join(allowed)}"
            )
        dimensions = {"FunctionName": self._function.function_name, "Version": version}
        return metric(self.namespace, name, statistic, None, dimensions)

    def error_rate(self) -> cloudwatch.MathExpression:
        """Return failed invocations in percent of all."""
        errors, invocations = (self.of_alias(n, "Sum") for n in ("Errors", "Invocations"))
        return percent(errors, invocations, "Errors, percent")
