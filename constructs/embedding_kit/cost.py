"""What an endpoint costs, as metric math over what the platform bills, at dated list prices."""

from aws_cdk import aws_cloudwatch as cloudwatch

from embedding_kit.metrics import PERIOD, EndpointMetrics
from embedding_kit.prices import LAMBDA_ARM64, LambdaPrices
from embedding_kit.settings import ColdStart, Provisioned, SnapStart

__all__ = ["cost_per_thousand", "cost_rate"]


def cost_rate(
    metrics: EndpointMetrics,
    *,
    memory_mb: int,
    cold_start: ColdStart,
    prices: LambdaPrices = LAMBDA_ARM64,
) -> cloudwatch.MathExpression:
    """Return US dollars an hour: billed time, requests, and environments that are kept ready.

    Billed time includes cold starts. With SnapStart it includes the restores and the snapshot of
    one published version, which is what stays once a release is over. Not included: storage of
    images and logs, and traffic.
    """
    expression, used = _dollars(metrics, memory_mb, cold_start, prices)
    return cloudwatch.MathExpression(
        expression=f"({expression}) * 3600 / PERIOD(billed)",
        using_metrics=used,
        period=PERIOD,
        label="US dollars an hour",
    )


def cost_per_thousand(
    metrics: EndpointMetrics,
    *,
    memory_mb: int,
    cold_start: ColdStart,
    prices: LambdaPrices = LAMBDA_ARM64,
) -> cloudwatch.MathExpression:
    """Return US dollars for a thousand embeddings, at the traffic of the time."""
    expression, used = _dollars(metrics, memory_mb, cold_start, prices)
    return cloudwatch.MathExpression(
        expression=f"IF(texts > 0, 1000 * ({expression}) / texts)",
        using_metrics={**used, "texts": metrics.of_embedder("Texts", "Sum")},
        period=PERIOD,
        label="US dollars for 1,000 embeddings",
    )


def _dollars(
    metrics: EndpointMetrics, memory_mb: int, cold_start: ColdStart, prices: LambdaPrices
) -> tuple[str, dict[str, cloudwatch.IMetric]]:
    """Return the dollars of one period, and what the expression is made of."""
    gigabytes = memory_mb / 1024
    ready = isinstance(cold_start, Provisioned)
    second = prices.ready_running_gb_second if ready else prices.gb_second
    used: dict[str, cloudwatch.IMetric] = {
        "billed": metrics.of_platform("BilledDuration", "Sum"),
        "requests": metrics.of_alias("Invocations", "Sum"),
    }
    expression = (
        f"FILL(billed, 0) / 1000 * {_number(gigabytes * second)}"
        f" + FILL(requests, 0) * {_number(prices.request)}"
    )
    if ready:
        used["ready"] = metrics.of_alias("ProvisionedConcurrentExecutions", "Average")
        per_second = _number(gigabytes * prices.ready_gb_second)
        expression += f" + FILL(ready, 0) * PERIOD(billed) * {per_second}"
    if isinstance(cold_start, SnapStart):
        used["restores"] = metrics.of_platform("RestoreDuration", "SampleCount")
        per_restore = _number(gigabytes * prices.restore_gb)
        per_second = _number(gigabytes * prices.snapshot_gb_second)
        expression += f" + FILL(restores, 0) * {per_restore} + PERIOD(billed) * {per_second}"
    return expression, used


def _number(value: float) -> str:
    # Metric math reads no exponents.
    return f"{value:.12f}".rstrip("0")
