"""The cost of an endpoint and of batch jobs, as metric math over durations and requests."""

from typing import NamedTuple

from aws_cdk import Token
from aws_cdk import aws_cloudwatch as cloudwatch

from embedding_kit.endpoint_metrics import PERIOD, EndpointMetrics, computed
from embedding_kit.prices import DEFAULT_REGION, Prices, load_prices
from embedding_kit.settings import ColdStart, Provisioned, SnapStart

#: A child of a job's map uses less than 64 MB, which is the least that Step Functions bills.
_CHILD_GB = 64 / 1024


def list_prices(region: str) -> Prices:
    """Return the prices of a region; of us-east-1 for a token, or without Lambda's prices."""
    prices = load_prices(DEFAULT_REGION if Token.is_unresolved(region) else region)
    return load_prices() if "lambda_duration" in prices.assumed else prices


class EndpointCost(NamedTuple):
    """US dollars per hour, and per 1,000 embeddings at the current traffic."""

    per_hour: cloudwatch.MathExpression
    per_thousand: cloudwatch.MathExpression


def endpoint_cost(
    metrics: EndpointMetrics, *, memory_mb: int, cold_start: ColdStart | None, prices: Prices
) -> EndpointCost:
    """Return the cost of duration, requests and provisioned concurrency.

    Billed duration includes cold starts. With SnapStart, the cost includes restores and the
    snapshot of one published version, the number of versions outside a release. Storage of images,
    zips and logs and data transfer are not included.
    """
    gigabytes = memory_mb / 1024
    provisioned = isinstance(cold_start, Provisioned)
    second = prices["lambda_provisioned_duration" if provisioned else "lambda_duration"].usd
    used: dict[str, cloudwatch.IMetric] = {
        "billed": metrics.of_platform("BilledDuration", "Sum"),
        "requests": metrics.of_alias("Invocations", "Sum"),
    }
    expression = (
        f"FILL(billed, 0) / 1000 * {_number(gigabytes * second)}"
        f" + FILL(requests, 0) * {_number(prices['lambda_requests'].usd)}"
    )
    if provisioned:
        used["ready"] = metrics.of_alias("ProvisionedConcurrentExecutions", "Average")
        per_second = _number(gigabytes * prices["lambda_provisioned"].usd)
        expression += f" + FILL(ready, 0) * PERIOD(billed) * {per_second}"
    if isinstance(cold_start, SnapStart):
        used["restores"] = metrics.of_platform("RestoreDuration", "SampleCount")
        per_restore = _number(gigabytes * prices["lambda_restore"].usd)
        per_second = _number(gigabytes * prices["lambda_snapshot"].usd)
        expression += f" + FILL(restores, 0) * {per_restore} + PERIOD(billed) * {per_second}"
    return EndpointCost(
        computed(f"({expression}) * 3600 / PERIOD(billed)", used, "US dollars per hour"),
        computed(
            f"IF(texts > 0, 1000 * ({expression}) / texts)",
            {**used, "texts": metrics.of_embedder("Texts", "Sum")},
            "US dollars per 1,000 embeddings",
        ),
    )


def cost_per_million_rows(
    *,
    rows: cloudwatch.IMetric,
    duration: cloudwatch.IMetric,
    requests: cloudwatch.IMetric,
    memory_mb: int,
    prices: Prices,
) -> cloudwatch.MathExpression:
    """Return US dollars per million rows of batch jobs: Lambda, and Step Functions.

    `duration` is in milliseconds, without cold starts.
    """
    second = memory_mb / 1024 * prices["lambda_duration"].usd
    second += _CHILD_GB * prices["express_duration"].usd
    request = prices["lambda_requests"].usd + prices["express_requests"].usd
    dollars = f"duration / 1000 * {_number(second)} + requests * {_number(request)}"
    return computed(
        f"IF(rows > 0, 1000000 * ({dollars}) / rows)",
        {"rows": rows, "duration": duration, "requests": requests},
        "US dollars per million rows",
        period=duration.period if isinstance(duration, cloudwatch.Metric) else PERIOD,
    )


def _number(value: float) -> str:
    # Metric math does not accept exponents.
    return f"{value:.12f}".rstrip("0")
