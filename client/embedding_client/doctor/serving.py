"""The vectors that are served, the last cold start, and the capacity before throttling."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from embedding_client._connect import read_spaces, write_spaces
from embedding_client._responses import VectorSpaceGuard
from embedding_client.doctor import CheckResult, SkippedError, ago, failed, ok, warning
from embedding_client.doctor.snapshot import Alias, Snapshot
from embedding_client.errors import VectorSpaceError

#: How far back to look, one after the other: a log is read from its start.
_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))
#: On demand, on restoring a snapshot, or of provisioned concurrency:
#: https://docs.aws.amazon.com/lambda/latest/dg/telemetry-schema-reference.html
_PATTERN = (
    '{ ($.type = "platform.report" && $.record.metrics.initDurationMs > 0) || '
    '($.type = "platform.report" && $.record.metrics.restoreDurationMs > 0) || '
    '($.type = "platform.initReport" && $.record.initializationType = "provisioned-concurrency") }'
)
#: A page has up to 10,000 events, or those of some seconds of search.
_MOST_PAGES = 30
#: After this Lambda restarts an initialization while the caller waits.
_LONGEST_MS = 10_000
_PERIOD = timedelta(minutes=5)
_DAY = timedelta(days=1)
#: What counts as now: three periods, as the last one may not have its data yet.
_RECENT = timedelta(minutes=15)
_HEADROOM = 0.8


def check_space(snapshot: Snapshot) -> CheckResult:
    """Compare the vector space of an answer, and remember it."""
    served = snapshot.served_spaces()
    file, url, options = snapshot.memory, snapshot.url(), snapshot.options
    remembered = read_spaces(file)
    recorded = None
    with suppress(SkippedError):
        outputs = snapshot.outputs()
        recorded = next((outputs[key] for key in outputs if "VectorSpace" in key), None)
    if url not in remembered or options.accept_vector_space:
        write_spaces(file, remembered | {url: served})
    compared = {
        "of the stored vectors (--vector-space)": options.vector_space,
        "of the last use from this machine": None
        if options.accept_vector_space
        else remembered.get(url),
        "of the last deploy": recorded if recorded != "unknown" else None,
    }
    named = {name: space for name, space in compared.items() if space is not None}
    for name, space in named.items():
        if not _same(space, served):
            advice = (
                "you cannot compare vectors of the two: deploy the previous version "
                "(scripts/rollback), or embed all stored texts again"
            )
            if name.startswith("of the last use"):
                advice += "; then --accept-vector-space"
            return failed(f"{served}, and {space} is that {name}", advice, served=served)
    like = f"; equal to that {', '.join(named)}" if named else "; remembered for the next time"
    return ok(f"{served}{like}", served=served)


def _same(expected: str, served: str) -> bool:
    """Compare spaces, and after ` + ` those of models besides, where both have such a model."""
    expected_space, expected_tasks = _spaces(expected)
    served_space, served_tasks = _spaces(served)
    if expected_space in served_tasks.values():  # `embed rerank` was the last use
        return True
    try:
        VectorSpaceGuard(expected_space).check(served_space)
    except VectorSpaceError:
        return False
    shared = expected_tasks.keys() & served_tasks
    return all(expected_tasks[task] == served_tasks[task] for task in shared)


def _spaces(text: str) -> tuple[str, dict[str, str]]:
    """Return the space of the endpoint's model, and those of the models besides by their task."""
    space, *companions = text.split(" + ")
    return space, dict(companion.partition(":")[::2] for companion in companions)


def check_cold_start(snapshot: Snapshot) -> CheckResult:
    """Search the log for the last cold start; none can be forced from outside."""
    group = snapshot.function().get("LoggingConfig", {}).get("LogGroup")
    if group is None:
        group = f"/aws/lambda/{snapshot.alias().function}"
    checked_at = snapshot.clock()
    for window in _WINDOWS:
        pages = snapshot.aws.iterate(
            "logs",
            "filter_log_events",
            logGroupName=group,
            filterPattern=_PATTERN,
            startTime=int((checked_at - window).timestamp() * 1000),
        )
        events: list[dict[str, Any]] = []
        for number, page in enumerate(pages):
            events += page.get("events", [])
            if number == _MOST_PAGES:
                raise SkippedError(
                    "the log is too long to search: see the graph Init duration of the dashboard"
                )
        if events:
            newest = max(events, key=lambda event: int(event["timestamp"]))
            start, took = _cold_start(json.loads(newest["message"])["record"])
            at = datetime.fromtimestamp(newest["timestamp"] / 1000, UTC)
            summary = f"{start} of {took:,.0f} ms, {ago(checked_at - at)}"
            if took >= _LONGEST_MS:
                return warning(summary, "docs/runbook.md#initdurationmax", milliseconds=took)
            return ok(summary, milliseconds=took, at=at.isoformat())
    return ok(f"none logged in {_WINDOWS[-1].days} days")


def _cold_start(record: Mapping[str, Any]) -> tuple[str, float]:
    """Return the kind of a cold start in a platform record, and its milliseconds."""
    metrics = record["metrics"]
    if "initializationType" in record:
        return "initialization of provisioned concurrency", float(metrics["durationMs"])
    if "restoreDurationMs" in metrics:
        return "restore of a snapshot", float(metrics["restoreDurationMs"])
    return "initialization", float(metrics["initDurationMs"])


def check_throttling(snapshot: Snapshot) -> CheckResult:
    """Read the concurrency, its limit and the throttles."""
    alias = snapshot.alias()
    answer = snapshot.aws.call("lambda", "get_function_concurrency", FunctionName=alias.function)
    limit = reserved = answer.get("ReservedConcurrentExecutions")
    if limit is None:
        account = snapshot.aws.call("lambda", "get_account_settings")["AccountLimit"]
        limit = account.get("UnreservedConcurrentExecutions", account["ConcurrentExecutions"])
    # Other functions use the unreserved quota, too.
    of = {} if reserved is None else {"FunctionName": alias.function}
    values = _values(snapshot, "ConcurrentExecutions", "Maximum", of)
    used = int(max(values.values())) if values else None
    recent, day = _sums(snapshot, "Throttles", alias)
    peak = "no data on concurrency" if used is None else f"at most {used:,}"
    quota = "unreserved in the account" if reserved is None else "reserved"
    summary = f"{day:,} throttled in a day; {peak} of {limit:,} ({quota})"
    data = {"throttled": day, "used": used, "limit": limit}
    advice = "raise reserved_concurrency or the account's quota: docs/runbook.md#throttles"
    if recent:
        return failed(f"{recent:,} throttled in the last 15 minutes; {summary}", advice, **data)
    if day or (used is not None and used >= _HEADROOM * limit):
        return warning(summary, advice, **data)
    return ok(summary, **data)


def check_provisioned(snapshot: Snapshot) -> CheckResult:
    """Read the provisioned concurrency, its scaling, and the requests beyond it."""
    alias = snapshot.alias()
    configs = snapshot.aws.pages(
        "lambda",
        "list_provisioned_concurrency_configs",
        "ProvisionedConcurrencyConfigs",
        FunctionName=alias.function,
    )
    if not any("ScalableTarget" in resource_type for resource_type in snapshot.resources()):
        if not configs:
            return ok("none")
        qualifiers = ", ".join(config["FunctionArn"].rpartition(":")[2] for config in configs)
        return failed(
            f"allocated to {qualifiers} and billed, although it is not set",
            f"scripts/deploy {snapshot.environment()} removes it",
        )
    targets = snapshot.aws.call(
        "application-autoscaling",
        "describe_scalable_targets",
        ServiceNamespace="lambda",
        ResourceIds=[f"function:{alias.function}:{alias.name}"],
    )["ScalableTargets"]
    states = targets[0].get("SuspendedState", {}) if targets else {}
    if suspended := sorted(activity for activity, is_suspended in states.items() if is_suspended):
        return failed(
            f"autoscaling is suspended: {', '.join(suspended)}",
            f"scripts/deploy {snapshot.environment()} resumes it (an unfinished scripts/destroy "
            "leaves it so)",
            suspended=suspended,
        )
    if not configs:
        return warning("set, but nothing is allocated", "wait a few minutes after a deploy")
    return _allocated(snapshot, alias, configs[0])


def _allocated(snapshot: Snapshot, alias: Alias, config: Mapping[str, Any]) -> CheckResult:
    requested = config["RequestedProvisionedConcurrentExecutions"]
    available = config.get("AvailableProvisionedConcurrentExecutions", 0)
    summary = f"{available} of {requested} available ({config['Status']})"
    if config["Status"] == "FAILED":
        return failed(
            f"{summary}: {config.get('StatusReason', 'no reason given')}",
            "the version cannot start, or the quota is used up: docs/runbook.md#stuck-weights",
        )
    if available < requested:
        return warning(summary, "wait a few minutes, and run it again")
    recent, day = _sums(snapshot, "ProvisionedConcurrencySpilloverInvocations", alias)
    if day:
        return warning(
            f"{summary}; {day:,} requests in a day found none free, {recent:,} of them in the last "
            "15 minutes",
            "docs/runbook.md#provisionedconcurrencyspillover",
            day=day,
            recent=recent,
        )
    return ok(summary, available=available, requested=requested)


def _sums(snapshot: Snapshot, name: str, alias: Alias) -> tuple[int, int]:
    """Read how often something happened to the alias in the last 15 minutes, and in a day."""
    of = {"FunctionName": alias.function, "Resource": f"{alias.function}:{alias.name}"}
    values = _values(snapshot, name, "Sum", of)
    start = snapshot.clock() - _RECENT
    recent = sum(value for at, value in values.items() if at >= start)
    return int(recent), int(sum(values.values()))


def _values(
    snapshot: Snapshot, name: str, statistic: str, dimensions: Mapping[str, str]
) -> dict[datetime, float]:
    """Read a metric of Lambda for the last day; return its values by the start of the period."""
    end = snapshot.clock()
    metric = {
        "Namespace": "AWS/Lambda",
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
    }
    stat = {"Metric": metric, "Period": int(_PERIOD.total_seconds()), "Stat": statistic}
    answer = snapshot.aws.call(
        "cloudwatch",
        "get_metric_data",
        MetricDataQueries=[{"Id": "value", "MetricStat": stat}],
        StartTime=end - _DAY,
        EndTime=end + timedelta(minutes=1),
    )
    (result,) = answer["MetricDataResults"]
    return dict(zip(result["Timestamps"], result["Values"], strict=True))
