"""Headroom before throttling, autoscaling, provisioned concurrency and its spillover."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from embedding_client.doctor.facts import Facts
from embedding_client.doctor.findings import Finding, ill, ok, skipped, warning

__all__ = [
    "Concurrency",
    "Sums",
    "check_autoscaling",
    "check_provisioned",
    "check_spillover",
    "check_throttling",
    "judge_autoscaling",
    "judge_provisioned",
    "judge_spillover",
    "judge_throttling",
]

_PERIOD = timedelta(minutes=5)
_DAY = timedelta(days=1)
#: What counts as now: three periods, as the last one may not have its data yet.
_RECENT = timedelta(minutes=15)
_HEADROOM = 0.8


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


def check_throttling(facts: Facts) -> Finding:
    """Read the concurrency, its limit and the throttles."""
    alias = facts.alias()
    reserved = facts.aws.call(
        "lambda", "get_function_concurrency", FunctionName=alias.function
    ).get("ReservedConcurrentExecutions")
    limit = reserved
    if limit is None:
        account = facts.aws.call("lambda", "get_account_settings")["AccountLimit"]
        limit = account.get("UnreservedConcurrentExecutions", account["ConcurrentExecutions"])
    # Other functions use the unreserved quota, too.
    of = {} if reserved is None else {"FunctionName": alias.function}
    used = _values(facts, "ConcurrentExecutions", "Maximum", of)
    return judge_throttling(
        Concurrency(
            used=int(max(used.values())) if used else None,
            limit=limit,
            reserved=reserved is not None,
        ),
        _sums(_values(facts, "Throttles", "Sum", _of_alias(facts)), facts.outside.now()),
    )


def judge_throttling(concurrency: Concurrency, throttles: Sums) -> Finding:
    """Judge the throttled requests, and how close the use is to the limit."""
    kind = "reserved" if concurrency.reserved else "unreserved in the account"
    used = concurrency.used
    found = f"{throttles.day:,} throttled in a day; "
    found += "no data on concurrency" if used is None else f"at most {used:,}"
    found += f" of {concurrency.limit:,} ({kind})"
    data = {"throttled": throttles.day, "used": used, "limit": concurrency.limit}
    advice = "raise reserved_concurrency or the account's quota: docs/runbook.md#throttles"
    if throttles.recent:
        return ill(
            f"{throttles.recent:,} throttled in the last 15 minutes; {found}", advice, **data
        )
    if throttles.day or (used is not None and used >= _HEADROOM * concurrency.limit):
        return warning(found, advice, **data)
    return ok(found, **data)


def check_autoscaling(facts: Facts) -> Finding:
    """Read the target of Application Auto Scaling."""
    alias = facts.alias()
    targets = facts.aws.call(
        "application-autoscaling",
        "describe_scalable_targets",
        ServiceNamespace="lambda",
        ResourceIds=[f"function:{alias.function}:{alias.name}"],
    )["ScalableTargets"]
    return judge_autoscaling(targets, facts.environment())


def judge_autoscaling(targets: Sequence[Mapping[str, Any]], name: str) -> Finding:
    """Judge whether the scaling is suspended."""
    if not targets:
        return ok("no autoscaling: no provisioned concurrency is set")
    target = targets[0]
    bounds = f"{target['MinCapacity']} to {target['MaxCapacity']}"
    suspended = sorted(kind for kind, is_on in target.get("SuspendedState", {}).items() if is_on)
    if suspended:
        return ill(
            f"{bounds}, suspended: {', '.join(suspended)}",
            f"scripts/deploy {name} resumes it (an unfinished scripts/destroy leaves it so)",
            suspended=suspended,
        )
    return ok(f"{bounds}, active", minimum=target["MinCapacity"], maximum=target["MaxCapacity"])


def check_provisioned(facts: Facts) -> Finding:
    """Read the provisioned concurrency of the function."""
    alias = facts.alias()
    configs = facts.aws.pages(
        "lambda",
        "list_provisioned_concurrency_configs",
        "ProvisionedConcurrencyConfigs",
        token="Marker",  # noqa: S106 - a field
        FunctionName=alias.function,
    )
    is_set = any("ScalableTarget" in kind for kind in facts.resources())
    return judge_provisioned(configs, is_set=is_set, name=facts.environment())


def judge_provisioned(configs: Sequence[Mapping[str, Any]], *, is_set: bool, name: str) -> Finding:
    """Judge what is allocated: without the setting it is only billed."""
    if not configs:
        if is_set:
            return warning(
                "set, but nothing is allocated", "wait a few minutes after a deploy; then see above"
            )
        return ok("none")
    if not is_set:
        places = ", ".join(config["FunctionArn"].rpartition(":")[2] for config in configs)
        return ill(
            f"allocated to {places} and billed, although it is not set",
            f"scripts/deploy {name} removes it",
        )
    config = configs[0]
    requested = config["RequestedProvisionedConcurrentExecutions"]
    available = config.get("AvailableProvisionedConcurrentExecutions", 0)
    found = f"{available} of {requested} available ({config['Status']})"
    if config["Status"] == "FAILED":
        return ill(
            f"{found}: {config.get('StatusReason', 'no reason given')}",
            "the version cannot start, or the quota is used up: docs/runbook.md#stuck-weights",
        )
    if available < requested:
        return warning(found, "wait a few minutes, and run it again")
    return ok(found, available=available, requested=requested)


def check_spillover(facts: Facts) -> Finding:
    """Count the requests beyond the provisioned concurrency."""
    if not any("ScalableTarget" in kind for kind in facts.resources()):
        return skipped("no provisioned concurrency")
    values = _values(facts, "ProvisionedConcurrencySpilloverInvocations", "Sum", _of_alias(facts))
    return judge_spillover(_sums(values, facts.outside.now()))


def judge_spillover(sums: Sums) -> Finding:
    """Judge the requests beyond the provisioned concurrency, which had cold starts."""
    found = f"{sums.day:,} requests in a day, {sums.recent:,} of them in the last 15 minutes"
    if sums.day:
        return warning(
            found,
            "docs/runbook.md#provisionedconcurrencyspillover",
            day=sums.day,
            recent=sums.recent,
        )
    return ok("no request in a day")


def _sums(values: Mapping[datetime, float], now: datetime) -> Sums:
    recent = sum(value for at, value in values.items() if at >= now - _RECENT)
    return Sums(int(recent), int(sum(values.values())))


def _of_alias(facts: Facts) -> dict[str, str]:
    alias = facts.alias()
    return {"FunctionName": alias.function, "Resource": f"{alias.function}:{alias.name}"}


def _values(
    facts: Facts, name: str, statistic: str, dimensions: Mapping[str, str]
) -> dict[datetime, float]:
    """Read a metric of Lambda for the last day; return its values by the start of the period."""
    now = facts.outside.now()
    metric = {
        "Namespace": "AWS/Lambda",
        "MetricName": name,
        "Dimensions": [{"Name": key, "Value": value} for key, value in dimensions.items()],
    }
    stat = {"Metric": metric, "Period": int(_PERIOD.total_seconds()), "Stat": statistic}
    answer = facts.aws.call(
        "cloudwatch",
        "get_metric_data",
        MetricDataQueries=[{"Id": "value", "MetricStat": stat}],
        StartTime=now - _DAY,
        EndTime=now + timedelta(minutes=1),
    )
    (result,) = answer["MetricDataResults"]
    return dict(zip(result["Timestamps"], result["Values"], strict=True))
