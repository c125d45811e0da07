"""The logs' retention and format, the metrics made from them, and traces."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any

from embedding_client.doctor.facts import Facts
from embedding_client.doctor.findings import Finding, SkippedError, ill, ok, warning

__all__ = [
    "check_format",
    "check_metrics",
    "check_retention",
    "check_traces",
    "judge_format",
    "judge_metrics",
    "judge_retention",
    "judge_traces",
]

#: A metric of the embedder, and one of a metric filter on the platform's records.
_EMBEDDER, _PLATFORM = "Requests", "MaxMemoryUsed"
#: The longest time that X-Ray allows in one question.
_TRACED = timedelta(hours=6)


def check_format(facts: Facts) -> Finding:
    """Read how the function logs."""
    return judge_format(facts.function().get("LoggingConfig", {}), facts.environment())


def judge_format(logging: Mapping[str, Any], name: str) -> Finding:
    """Judge the format: metric filters read the platform's records, which are JSON at INFO."""
    form, level = logging.get("LogFormat", "Text"), logging.get("SystemLogLevel", "INFO")
    found = f"{form}, system log level {level}"
    if form == "JSON" and level in {"INFO", "DEBUG"}:
        return ok(found)
    return ill(
        f"{found}: alarms on memory and cold starts have no data",
        f"scripts/deploy {name} sets JSON and INFO",
    )


def check_retention(facts: Facts) -> Finding:
    """Read the log group."""
    name = facts.function().get("LoggingConfig", {}).get("LogGroup", "")
    groups = facts.aws.call("logs", "describe_log_groups", logGroupNamePrefix=name)["logGroups"]
    group = next((group for group in groups if group["logGroupName"] == name), None)
    return judge_retention(group, name=name, environment=facts.environment())


def judge_retention(group: Mapping[str, Any] | None, *, name: str, environment: str) -> Finding:
    """Judge whether the log ends some day."""
    if group is None:
        return ill(
            f"the log group {name} does not exist", f"scripts/deploy {environment} creates it"
        )
    days = group.get("retentionInDays")
    if days is None:
        return warning(
            "logs are kept forever, and billed",
            "set log_retention_days under [function], and deploy",
        )
    return ok(f"{days} days", days=days)


def check_metrics(facts: Facts) -> Finding:
    """Read which metrics the environment has had in the last hours."""
    namespace = facts.variables().get("EMBEDDING_METRICS_NAMESPACE")
    if namespace is None:
        raise SkippedError("no permission to read the function's variables")
    metrics = facts.aws.pages(
        "cloudwatch",
        "list_metrics",
        "Metrics",
        token="NextToken",  # noqa: S106 - a field
        Namespace=namespace,
        RecentlyActive="PT3H",
    )
    return judge_metrics({metric["MetricName"] for metric in metrics}, namespace)


def judge_metrics(names: Collection[str], namespace: str) -> Finding:
    """Judge the names of the metrics that had data in the last three hours."""
    if _EMBEDDER not in names:
        return warning(
            f"no requests in {namespace} in the last three hours",
            "normal some minutes after the first request; otherwise docs/runbook.md#notraffic",
        )
    if _PLATFORM not in names:
        return warning(
            f"{namespace} has the embedder's metrics, but none from Lambda's platform logs",
            "normal some minutes after the first request; otherwise "
            "docs/runbook.md#missingplatformlogs",
        )
    return ok(f"{len(names)} metrics in {namespace}", metrics=len(names))


def check_traces(facts: Facts) -> Finding:
    """Read whether X-Ray has traces."""
    mode = facts.function().get("TracingConfig", {}).get("Mode", "PassThrough")
    if mode != "Active":
        raise SkippedError("tracing is off")
    now = facts.outside.now()
    answer = facts.aws.call(
        "xray",
        "get_trace_summaries",
        StartTime=now - _TRACED,
        EndTime=now,
        FilterExpression=f'service("{facts.alias().function}")',
    )
    return judge_traces(len(answer.get("TraceSummaries", [])))


def judge_traces(count: int) -> Finding:
    """Judge the number of traces of the last hours."""
    if count:
        return ok(f"{count} or more in six hours")
    return warning(
        "tracing is on, but X-Ray has no traces of the last six hours",
        "normal in the first minutes; otherwise check the permission xray:PutTraceSegments",
    )
