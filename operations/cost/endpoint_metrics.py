"""`scripts/cost --from-endpoint`: what a deployed environment did, from CloudWatch."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError
from botocore.session import Session

from operations.cost.errors import CostError
from operations.cost.observed import Observed

__all__ = ["observe"]

_HOUR = 3600
_ALIAS = "live"


@dataclass(frozen=True, slots=True)
class _Query:
    """A metric of the endpoint; the sum of it in each hour, or the number of its values."""

    name: str
    statistic: str
    #: `kit` is the environment's namespace by function, `logs` the same without a dimension, and
    #: `alias` that of Lambda.
    place: str


_QUERIES = {
    "requests": _Query("Requests", "Sum", "kit"),
    "cold_starts": _Query("ColdStarts", "Sum", "kit"),
    "tokens": _Query("Tokens", "Sum", "kit"),
    "milliseconds": _Query("Duration", "Sum", "alias"),
    "invocations": _Query("Duration", "SampleCount", "alias"),
    "init_milliseconds": _Query("InitDuration", "Sum", "logs"),
    "inits": _Query("InitDuration", "SampleCount", "logs"),
}


def observe(
    session: Session,
    environment: str,
    *,
    region: str | None,
    days: int,
    now: datetime,
) -> Observed:
    """Read the last days of a deployed environment. CloudWatch is only read.

    Args:
        session: The AWS credentials.
        environment: The environment's name.
        region: Its region; the session's if None.
        days: How many days, up to 14: after those CloudWatch no longer lists a metric without data.
        now: The end, with a time zone.

    Raises:
        CostError: It cannot be read, or there were no requests.
    """
    namespace = f"EmbeddingKit/{environment}"
    try:
        client = session.create_client("cloudwatch", region_name=region)
        function = _function(client, namespace)
        end = now.replace(minute=0, second=0, microsecond=0)
        pages = client.get_paginator("get_metric_data").paginate(
            MetricDataQueries=[*_metric_queries(namespace, function)],
            StartTime=end - timedelta(days=days),
            EndTime=end,
        )
        values: dict[str, list[float]] = {name: [] for name in _QUERIES}
        for page in pages:
            for result in page["MetricDataResults"]:
                values[result["Id"]] += result["Values"]
    except (BotoCoreError, ClientError) as error:
        raise CostError(f"CloudWatch cannot be read: {error}") from None
    return _summarize(values, environment, days)


def _function(client: Any, namespace: str) -> str:
    """Return the function's name, which is a dimension of the environment's metrics."""
    pages = client.get_paginator("list_metrics").paginate(
        Namespace=namespace, MetricName="Requests"
    )
    names = {
        metric["Dimensions"][0]["Value"]
        for page in pages
        for metric in page["Metrics"]
        if [dimension["Name"] for dimension in metric["Dimensions"]] == ["FunctionName"]
    }
    if len(names) != 1:
        found = ", ".join(sorted(names)) or "none"
        raise CostError(
            f"CloudWatch lists the functions that write to {namespace}; found: {found}; allowed: "
            "one, with requests in the last 14 days, in this account and region"
        )
    return str(names.pop())


def _metric_queries(namespace: str, function: str) -> Iterator[dict[str, Any]]:
    by_function = {"Name": "FunctionName", "Value": function}
    places: dict[str, tuple[str, list[dict[str, str]]]] = {
        "kit": (namespace, [by_function]),
        "logs": (namespace, []),
        "alias": (
            "AWS/Lambda",
            [by_function, {"Name": "Resource", "Value": f"{function}:{_ALIAS}"}],
        ),
    }
    for name, query in _QUERIES.items():
        space, dimensions = places[query.place]
        yield {
            "Id": name,
            "MetricStat": {
                "Metric": {
                    "Namespace": space,
                    "MetricName": query.name,
                    "Dimensions": dimensions,
                },
                "Period": _HOUR,
                "Stat": query.statistic,
            },
        }


def _summarize(values: Mapping[str, list[float]], environment: str, days: int) -> Observed:
    sums = {name: sum(hours) for name, hours in values.items()}
    requests, invocations = sums["requests"], sums["invocations"]
    if not requests or not invocations:
        raise CostError(f"{environment} had no requests in the last {days * 24} hours")
    inits = sums["inits"]
    return Observed(
        hours=tuple(values["requests"]) + (0.0,) * (24 * days - len(values["requests"])),
        tokens=max(1, round(sums["tokens"] / requests)),
        seconds=sums["milliseconds"] / invocations / 1000,
        cold_share=min(1.0, sums["cold_starts"] / requests),
        init_seconds=sums["init_milliseconds"] / inits / 1000 if inits else None,
        days=days,
    )
