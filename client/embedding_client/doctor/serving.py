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
    file, url, asked = snapshot.memory, snapshot.url(), snapshot.asked
    known = read_spaces(file)
    recorded = None
    with suppress(SkippedError):
        outputs = snapshot.outputs()
        recorded = next((outputs[key] for key in outputs if "VectorSpace" in key), None)
    if url not in known or asked.accept_vector_space:
        write_spaces(file, known | {url: served})
    compared = {
        "of the stored vectors (--vector-space)": asked.vector_space,
        "of the last use from this machine": None if asked.accept_vector_space else known.get(url),
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
    (first, *others), (second, *rest) = expected.split(" + "), served.split(" + ")
    known, found = (dict(each.partition(":")[::2] for each in more) for more in (others, rest))
    if first in found.values():  # `embed rerank` was the last use
        return True
    try:
        VectorSpaceGuard(first).check(second)
    except VectorSpaceError:
        return False
    return all(known[task] == found[task] for task in known.keys() & found)


def check_cold_start(snapshot: Snapshot) -> CheckResult:
    """Search the log for the last cold start; none can be forced from outside."""
    group = snapshot.function().get("LoggingConfig", {}).get("LogGroup")
    if group is None:
        group = f"/aws/lambda/{snapshot.alias().function}"
    now = snapshot.now()
    for window in _WINDOWS:
        pages = snapshot.aws.iterate(
            "logs",
            "filter_log_events",
            logGroupName=group,
            filterPattern=_PATTERN,
            startTime=int((now - window).timestamp() * 1000),
        )
        events: list[dict[str, Any]] = []
        for number, page in enumerate(pages):
            events += page.get("events", [])
            if number == _MOST_PAGES:
                raise SkippedError(
                    "the log is too long to search: see the graph Init duration of the dashboard"
                )
        if events:
            last = max(events, key=lambda event: int(event["timestamp"]))
            kind, took = _cold_start(json.loads(last["message"])["record"])
            at = datetime.fromtimestamp(last["timestamp"] / 1000, UTC)
            found = f"{kind} of {took:,.0f} ms, {ago(now - at)}"
            if took >= _LONGEST_MS:
                return warning(found, "docs/runbook.md#initdurationmax", milliseconds=took)
            return ok(found, milliseconds=took, at=at.isoformat())
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
    most = "no data on concurrency" if used is None else f"at most {used:,}"
    kind = "unreserved in the account" if reserved is None else "reserved"
    found = f"{day:,} throttled in a day; {most} of {limit:,} ({kind})"
    data = {"throttled": day, "used": used, "limit": limit}
    advice = "raise reserved_concurrency or the account's quota: docs/runbook.md#throttles"
    if recent:
        return failed(f"{recent:,} throttled in the last 15 minutes; {found}", advice, **data)
    if day or (used is not None and used >= _HEADROOM * limit):
        return warning(found, advice, **data)
    return ok(found, **data)


def check_provisioned(snapshot: Snapshot) -> CheckResult:
    """Read the provisioned concurrency, its scaling, and the requests beyond it."""
    alias = snapshot.alias()
    configs = snapshot.aws.pages(
        "lambda",
        "list_provisioned_concurrency_configs",
        "ProvisionedConcurrencyConfigs",
        FunctionName=alias.function,
    )
    if not any("ScalableTarget" in kind for kind in snapshot.resources()):
        if not configs:
            return ok("none")
        places = ", ".join(config["FunctionArn"].rpartition(":")[2] for config in configs)
        return failed(
            f"allocated to {places} and billed, although it is not set",
            f"scripts/deploy {snapshot.environment()} removes it",
        )
    targets = snapshot.aws.call(
        "application-autoscaling",
        "describe_scalable_targets",
        ServiceNamespace="lambda",
        ResourceIds=[f"function:{alias.function}:{alias.name}"],
    )["ScalableTargets"]
    states = targets[0].get("SuspendedState", {}) if targets else {}
    if suspended := sorted(kind for kind, is_on in states.items() if is_on):
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
    found = f"{available} of {requested} available ({config['Status']})"
    if config["Status"] == "FAILED":
        return failed(
            f"{found}: {config.get('StatusReason', 'no reason given')}",
            "the version cannot start, or the quota is used up: docs/runbook.md#stuck-weights",
        )
    if available < requested:
        return warning(found, "wait a few minutes, and run it again")
    recent, day = _sums(snapshot, "ProvisionedConcurrencySpilloverInvocations", alias)
    if day:
        return warning(
            f"{found}; {day:,} requests in a day found none free, {recent:,} of them in the last "
            "15 minutes",
            "docs/runbook.md#provisionedconcurrencyspillover",
            day=day,
            recent=recent,
        )
    return ok(found, available=available, requested=requested)


def _sums(snapshot: Snapshot, name: str, alias: Alias) -> tuple[int, int]:
    """Read how often something happened to the alias in the last 15 minutes, and in a day."""
    of = {"FunctionName": alias.function, "Resource": f"{alias.function}:{alias.name}"}
    values = _values(snapshot, name, "Sum", of)
    now = snapshot.now()
    recent = sum(value for at, value in values.items() if at >= now - _RECENT)
    return int(recent), int(sum(values.values()))


def _values(
    snapshot: Snapshot, name: str, statistic: str, dimensions: Mapping[str, str]
) -> dict[datetime, float]:
    """Read a metric of Lambda for the last day; return its values by the start of the period."""
    now = snapshot.now()
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
        StartTime=now - _DAY,
        EndTime=now + timedelta(minutes=1),
    )
    (result,) = answer["MetricDataResults"]
    return dict(zip(result["Timestamps"], result["Values"], strict=True))
