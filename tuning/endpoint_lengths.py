"""The lengths of a deployed endpoint's own requests, from CloudWatch."""

from datetime import datetime, timedelta
from typing import Any

from botocore.session import Session

from tuning.errors import TuneError
from tuning.workload import Length, Workload

__all__ = ["DAYS", "endpoint_workload"]

#: The days that are read.
DAYS = 14
_DAY = 86_400
#: Each percentile represents the requests that are nearer to it than to the others.
_SHARES = {"p50": 0.70, "p90": 0.245, "p99": 0.055}
#: Query id: metric and statistic.
_QUERIES = {
    **{name: ("Tokens", name) for name in _SHARES},
    "requests": ("Tokens", "SampleCount"),
    "texts": ("Texts", "Sum"),
}


def endpoint_workload(
    session: Session, environment: str, function: str, *, region: str | None, now: datetime
) -> Workload:
    """Return the 50th, 90th and 99th percentile of the tokens of a request.

    CloudWatch computes them for each day; the days are averaged by their requests.

    Args:
        session: The AWS credentials.
        environment: The environment's name.
        function: The name of its function.
        region: Its region; the session's if None.
        now: The end of the days, with a time zone.

    Raises:
        TuneError: No request was embedded in these days.
        ClientError: CloudWatch refuses.
    """
    client = session.create_client("cloudwatch", region_name=region)
    end = now.replace(minute=0, second=0, microsecond=0)
    pages = client.get_paginator("get_metric_data").paginate(
        MetricDataQueries=[
            _query(name, metric, statistic, environment, function)
            for name, (metric, statistic) in _QUERIES.items()
        ],
        StartTime=end - timedelta(days=DAYS),
        EndTime=end,
    )
    days: dict[str, dict[datetime, float]] = {name: {} for name in _QUERIES}
    for page in pages:
        for result in page["MetricDataResults"]:
            days[result["Id"]].update(zip(result["Timestamps"], result["Values"], strict=True))
    return _summarize(days, environment)


def _query(
    name: str, metric: str, statistic: str, environment: str, function: str
) -> dict[str, Any]:
    return {
        "Id": name,
        "MetricStat": {
            "Metric": {
                "Namespace": f"EmbeddingKit/{environment}",
                "MetricName": metric,
                "Dimensions": [{"Name": "FunctionName", "Value": function}],
            },
            "Period": _DAY,
            "Stat": statistic,
        },
    }


def _summarize(days: dict[str, dict[datetime, float]], environment: str) -> Workload:
    requests = days["requests"]
    total = sum(requests.values())
    if not total:
        raise TuneError(
            f"{environment} has embedded nothing in the last {DAYS} days; "
            "allowed: the tokens of your requests, such as --tokens 32,128,512"
        )
    shares: dict[int, float] = {}
    for name, share in _SHARES.items():
        mean = sum(days[name].get(day, 0.0) * count for day, count in requests.items()) / total
        tokens = max(1, round(mean))
        shares[tokens] = shares.get(tokens, 0.0) + share
    return Workload(
        lengths=tuple(Length(tokens, share) for tokens, share in sorted(shares.items())),
        texts=max(1, round(sum(days["texts"].values()) / total)),
        source=f"p50, p90 and p99 of the endpoint's own requests, {DAYS} days",
    )
