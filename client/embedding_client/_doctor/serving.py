"""The vectors that are served, the last cold start, and the capacity before throttling."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from embedding_client._connect import read_spaces, write_spaces
from embedding_client._doctor.results import (
    CheckResult,
    SkippedError,
    ago,
    failed,
    ok,
    warning,
)
from embedding_client._doctor.snapshot import Alias, Snapshot
from embedding_client._errors import VectorSpaceError
from embedding_client._responses import VectorSpaceGuard

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


class Spaces(NamedTuple):
    """The vector space that the endpoint serves, and those it should be.

    Attributes:
        served: That of the endpoint's answer.
        stored: That of the stored vectors, which the caller gave.
        last: That of the last use from this machine.
        recorded: That of the last deploy.
    """

    served: str
    stored: str | None = None
    last: str | None = None
    recorded: str | None = None


def check_space(snapshot: Snapshot) -> CheckResult:
    """Compare the vector space of an answer, and remember it."""
    served = snapshot.served_spaces()
    file, url = snapshot.probes.memory, snapshot.url()
    known = read_spaces(file)
    recorded = None
    with suppress(SkippedError):
        outputs = snapshot.outputs()
        recorded = next((outputs[key] for key in outputs if "VectorSpace" in key), None)
    result = space_result(
        Spaces(
            served=served,
            stored=snapshot.asked.vector_space,
            last=None if snapshot.asked.accept_vector_space else known.get(url),
            recorded=recorded if recorded != "unknown" else None,
        )
    )
    if known.get(url) is None or snapshot.asked.accept_vector_space:
        write_spaces(file, known | {url: served})
    return result


def space_result(spaces: Spaces) -> CheckResult:
    """Decide on the vector space by those that it should be."""
    compared = {
        "of the stored vectors (--vector-space)": spaces.stored,
        "of the last use from this machine": spaces.last,
        "of the last deploy": spaces.recorded,
    }
    known = {name: space for name, space in compared.items() if space is not None}
    for name, space in known.items():
        if not _same(space, spaces.served):
            advice = (
                "you cannot compare vectors of the two: deploy the previous version "
                "(scripts/rollback), or embed all stored texts again"
            )
            if name.startswith("of the last use"):
                advice += "; then --accept-vector-space"
            return failed(
                f"{spaces.served}, and {space} is that {name}", advice, served=spaces.served
            )
    like = f"; equal to that {', '.join(known)}" if known else "; remembered for the next time"
    return ok(f"{spaces.served}{like}", served=spaces.served)


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


class ColdStart(NamedTuple):
    """A cold start in the log."""

    kind: str
    milliseconds: float
    at: datetime


def check_cold_start(snapshot: Snapshot) -> CheckResult:
    """Search the log for the last cold start; none can be forced from outside."""
    group = snapshot.function().get("LoggingConfig", {}).get("LogGroup")
    if group is None:
        group = f"/aws/lambda/{snapshot.alias().function}"
    now = snapshot.probes.now()
    for window in _WINDOWS:
        pages = snapshot.aws.iterate(
            "logs",
            "filter_log_events",
            token="nextToken",  # noqa: S106 - a field
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
            return cold_start_result(cold_start_of(last), now)
    return cold_start_result(None, now)


def cold_start_of(event: dict[str, Any]) -> ColdStart:
    """Return the cold start of a platform record in a log."""
    record = json.loads(event["message"])["record"]
    metrics = record["metrics"]
    if "initializationType" in record:
        kind, took = "initialization of provisioned concurrency", metrics["durationMs"]
    elif "restoreDurationMs" in metrics:
        kind, took = "restore of a snapshot", metrics["restoreDurationMs"]
    else:
        kind, took = "initialization", metrics["initDurationMs"]
    return ColdStart(kind, float(took), datetime.fromtimestamp(event["timestamp"] / 1000, UTC))


def cold_start_result(start: ColdStart | None, now: datetime) -> CheckResult:
    """Decide on how long the last cold start took."""
    if start is None:
        return ok(f"none logged in {_WINDOWS[-1].days} days")
    found = f"{start.kind} of {start.milliseconds:,.0f} ms, {ago(now - start.at)}"
    if start.milliseconds >= _LONGEST_MS:
        return warning(found, "docs/runbook.md#initdurationmax", milliseconds=start.milliseconds)
    return ok(found, milliseconds=start.milliseconds, at=start.at.isoformat())


class Concurrency(NamedTuple):
    """The concurrency that was used, and that is allowed.

    Attributes:
        used: The highest of a day; None without data.
        limit: The reserved concurrency, or the account's unreserved quota.
        reserved: Whether the limit is the function's own.
    """

    used: int | None
    limit: int
    reserved: bool


class Sums(NamedTuple):
    """A count of the last minutes and of the last day."""

    recent: int
    day: int


def check_throttling(snapshot: Snapshot) -> CheckResult:
    """Read the concurrency, its limit and the throttles."""
    alias = snapshot.alias()
    reserved = snapshot.aws.call(
        "lambda", "get_function_concurrency", FunctionName=alias.function
    ).get("ReservedConcurrentExecutions")
    limit = reserved
    if limit is None:
        account = snapshot.aws.call("lambda", "get_account_settings")["AccountLimit"]
        limit = account.get("UnreservedConcurrentExecutions", account["ConcurrentExecutions"])
    # Other functions use the unreserved quota, too.
    of = {} if reserved is None else {"FunctionName": alias.function}
    used = _values(snapshot, "ConcurrentExecutions", "Maximum", of)
    return throttling_result(
        Concurrency(
            used=int(max(used.values())) if used else None,
            limit=limit,
            reserved=reserved is not None,
        ),
        _sums(_values(snapshot, "Throttles", "Sum", _of_alias(alias)), snapshot.probes.now()),
    )


def throttling_result(concurrency: Concurrency, throttles: Sums) -> CheckResult:
    """Decide on the throttled requests, and how close the use is to the limit."""
    kind = "reserved" if concurrency.reserved else "unreserved in the account"
    used = concurrency.used
    found = f"{throttles.day:,} throttled in a day; "
    found += "no data on concurrency" if used is None else f"at most {used:,}"
    found += f" of {concurrency.limit:,} ({kind})"
    data = {"throttled": throttles.day, "used": used, "limit": concurrency.limit}
    advice = "raise reserved_concurrency or the account's quota: docs/runbook.md#throttles"
    if throttles.recent:
        return failed(
            f"{throttles.recent:,} throttled in the last 15 minutes; {found}", advice, **data
        )
    if throttles.day or (used is not None and used >= _HEADROOM * concurrency.limit):
        return warning(found, advice, **data)
    return ok(found, **data)


def check_provisioned(snapshot: Snapshot) -> CheckResult:
    """Read the provisioned concurrency, its scaling, and the requests beyond it."""
    alias = snapshot.alias()
    configs = snapshot.aws.pages(
        "lambda",
        "list_provisioned_concurrency_configs",
        "ProvisionedConcurrencyConfigs",
        token="Marker",  # noqa: S106 - a field
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
    values = _values(
        snapshot, "ProvisionedConcurrencySpilloverInvocations", "Sum", _of_alias(alias)
    )
    spilled = _sums(values, snapshot.probes.now())
    return provisioned_result(configs, targets, spilled, name=snapshot.environment())


def provisioned_result(
    configs: Sequence[Mapping[str, Any]],
    targets: Sequence[Mapping[str, Any]],
    spilled: Sums,
    *,
    name: str,
) -> CheckResult:
    """Decide on the provisioned concurrency of an environment that has set it."""
    states = targets[0].get("SuspendedState", {}) if targets else {}
    if suspended := sorted(kind for kind, is_on in states.items() if is_on):
        return failed(
            f"autoscaling is suspended: {', '.join(suspended)}",
            f"scripts/deploy {name} resumes it (an unfinished scripts/destroy leaves it so)",
            suspended=suspended,
        )
    if not configs:
        return warning("set, but nothing is allocated", "wait a few minutes after a deploy")
    config = configs[0]
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
    if spilled.day:
        return warning(
            f"{found}; {spilled.day:,} requests in a day found none free, {spilled.recent:,} of "
            "them in the last 15 minutes",
            "docs/runbook.md#provisionedconcurrencyspillover",
            day=spilled.day,
            recent=spilled.recent,
        )
    return ok(found, available=available, requested=requested)


def _sums(values: Mapping[datetime, float], now: datetime) -> Sums:
    recent = sum(value for at, value in values.items() if at >= now - _RECENT)
    return Sums(int(recent), int(sum(values.values())))


def _of_alias(alias: Alias) -> dict[str, str]:
    return {"FunctionName": alias.function, "Resource": f"{alias.function}:{alias.name}"}


def _values(
    snapshot: Snapshot, name: str, statistic: str, dimensions: Mapping[str, str]
) -> dict[datetime, float]:
    """Read a metric of Lambda for the last day; return its values by the start of the period."""
    now = snapshot.probes.now()
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
