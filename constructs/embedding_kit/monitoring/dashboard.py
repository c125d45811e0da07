"""The dashboard: alarm states, traffic, latency, cold starts, capacity, cost, log queries.

The cost is metric math over durations and requests.
"""

from collections.abc import Sequence
from typing import NamedTuple

from aws_cdk import Duration, Stack, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.endpoint_metrics import PERIOD, EndpointMetrics, computed
from embedding_kit.monitoring.alarms import EndpointAlarms
from embedding_kit.prices import DEFAULT_REGION, Prices, load_prices
from embedding_kit.settings import ColdStart, Provisioned, SnapStart

#: A vertical axis that begins at zero.
_FROM_ZERO = cloudwatch.YAxisProps(min=0, show_units=False)
_WIDTH = 24
_PRICES_PAGE = "https://aws.amazon.com/lambda/pricing/"
_DURATION = "lambda_duration"
_HEIGHT = 6
_SLOWEST = (
    "fields @timestamp, durationMs, tokens, texts, api, status, requestId",
    'filter message = "request"',
    "sort durationMs desc",
    "limit 20",
)
_COLD_STARTS = (
    "fields @timestamp, record.metrics.initDurationMs as initMs",
    "fields record.metrics.restoreDurationMs as restoreMs",
    "fields record.metrics.maxMemoryUsedMB as memoryMB",
    'filter type = "platform.report" and (initMs > 0 or restoreMs > 0)',
    "sort @timestamp desc",
    "limit 20",
)


def graph(
    title: str,
    *left: cloudwatch.IMetric,
    right: Sequence[cloudwatch.IMetric] = (),
    limit: tuple[float, str] | None = None,
    width: int = 8,
) -> cloudwatch.GraphWidget:
    """Return a graph with an axis on each side, a third of a row wide by default.

    `limit` is a horizontal line on the left axis: its value and its label.
    """
    lines = [cloudwatch.HorizontalAnnotation(value=limit[0], label=limit[1])] if limit else []
    return cloudwatch.GraphWidget(
        title=title,
        left=list(left),
        right=list(right),
        left_annotations=lines,
        left_y_axis=_FROM_ZERO,
        right_y_axis=_FROM_ZERO,
        width=width,
        height=_HEIGHT,
    )


class EndpointDashboard(Construct):
    """The endpoint's dashboard.

    Args:
        endpoint: The endpoint.
        alarms: The alarms at the top.

    Attributes:
        dashboard: The dashboard; `dashboard.add_widgets` adds further ones at the end.
    """

    def __init__(
        self, scope: Construct, id: str, *, endpoint: EmbeddingEndpoint, alarms: EndpointAlarms
    ) -> None:
        super().__init__(scope, id)
        self._endpoint = endpoint
        self._metrics = endpoint.metrics
        # Those of us-east-1 if the region is not known at synth.
        self._prices = list_prices(Stack.of(self).region)
        self._thresholds = alarms.thresholds
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            # Dashboards are global in an account, so the name includes the region.
            # https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Dashboards.html
            dashboard_name=f"EmbeddingKit-{endpoint.name}-{Stack.of(self).region}",
            default_interval=Duration.hours(3),
            period_override=cloudwatch.PeriodOverride.AUTO,
        )
        status = cloudwatch.AlarmStatusWidget(
            title="Alarms",
            alarms=[*([alarms.page] if alarms.page else []), *alarms.alarms.values()],
            width=_WIDTH,
            height=3,
        )
        for row in (
            [status],
            self._traffic(),
            self._latency(),
            self._cold_starts(),
            self._capacity(),
            self._cost(),
            self._queries(),
        ):
            self.dashboard.add_widgets(*row)

    def _threshold(self, alarm: str) -> tuple[float, str] | None:
        """Return the line of an alarm on p99; None if the alarm is disabled."""
        threshold = self._thresholds.get(alarm)
        return None if threshold is None else (threshold, "Alarm on p99")

    def _traffic(self) -> list[cloudwatch.IWidget]:
        metrics = self._metrics
        return [
            graph(
                "Requests per minute",
                metrics.of_alias("UrlRequestCount", "Sum", "Requests"),
                metrics.of_alias("Url4xxCount", "Sum", "4xx"),
                metrics.of_alias("Url5xxCount", "Sum", "5xx"),
            ),
            graph(
                "Errors and throttles",
                metrics.of_alias("Errors", "Sum", "Errors"),
                metrics.of_alias("Throttles", "Sum", "Throttled (429)"),
                right=[metrics.error_rate()],
            ),
            graph(
                "Texts and tokens per second",
                _per_second(metrics.of_embedder("Texts", "Sum"), "Texts"),
                _per_second(metrics.of_embedder("CacheHits", "Sum"), "Texts from cache"),
                right=[_per_second(metrics.of_embedder("Tokens", "Sum"), "Tokens")],
            ),
        ]

    def _latency(self) -> list[cloudwatch.IWidget]:
        metrics = self._metrics
        return [
            graph(
                "Duration, ms",
                *(metrics.of_alias("Duration", p, p) for p in ("p50", "p90", "p99", "Maximum")),
                limit=self._threshold("DurationP99"),
            ),
            graph(
                "Duration at the URL, ms",
                *(metrics.of_alias("UrlRequestLatency", p, p) for p in ("p50", "p90", "p99")),
            ),
            graph(
                "Tokenization and inference, ms",
                metrics.of_embedder("TokenizationTime", "p50", "Tokenization, p50"),
                metrics.of_embedder("InferenceTime", "p50", "Inference, p50"),
                metrics.of_embedder("InferenceTime", "p99", "Inference, p99"),
                right=[
                    metrics.of_embedder("PaddingWaste", "Average", "Padding, percent"),
                    metrics.of_embedder("BatchSize", "Average", "Texts per batch"),
                ],
            ),
        ]

    def _cold_starts(self) -> list[cloudwatch.IWidget]:
        metrics = self._metrics
        starts = [metrics.of_platform("InitDuration", p, p) for p in ("p50", "p99", "Maximum")]
        cold_start = self._endpoint.cold_start
        if isinstance(cold_start, Provisioned):
            starts.append(
                metrics.of_platform("ProvisionedInitDuration", "Maximum", "Provisioned, maximum")
            )
        if isinstance(cold_start, SnapStart):
            starts.append(metrics.of_platform("RestoreDuration", "p99", "Restore, p99"))
        return [
            graph("Init duration, ms", *starts, limit=self._threshold("InitDurationP99")),
            graph(
                "Initializations",
                metrics.of_platform("InitDuration", "SampleCount", "On demand"),
                metrics.of_platform("RestoreDuration", "SampleCount", "Restored"),
                metrics.of_platform("ProvisionedInitDuration", "SampleCount", "Provisioned"),
                metrics.of_embedder("ColdStarts", "Sum", "First requests after an initialization"),
            ),
            graph(
                "Requests with a cold start, percent",
                computed(
                    "IF(requests > 0, 100 * FILL(cold, 0) / requests, 0)",
                    {
                        "cold": metrics.of_embedder("ColdStarts", "Sum"),
                        "requests": metrics.of_embedder("Requests", "Sum"),
                    },
                    "Percent",
                ),
            ),
        ]

    def _capacity(self) -> list[cloudwatch.IWidget]:
        metrics, function = self._metrics, self._endpoint.settings
        provisioned = isinstance(self._endpoint.cold_start, Provisioned)
        width = _WIDTH // 3 if provisioned else _WIDTH // 2
        concurrency = graph(
            "Concurrent executions",
            metrics.of_function("ConcurrentExecutions", "Maximum", "This function"),
            metrics.of_account("ConcurrentExecutions", "Maximum", "All functions of the account"),
            limit=(function.concurrency_limit, "Limit"),
            width=width,
        )
        memory = graph(
            "Memory, MB",
            metrics.of_platform("MaxMemoryUsed", "p50", "p50"),
            metrics.of_platform("MaxMemoryUsed", "Maximum", "Maximum"),
            limit=(function.memory_mb, "Limit"),
            width=width,
        )
        if not provisioned:
            return [concurrency, memory]
        utilization = graph(
            "Provisioned concurrency",
            metrics.of_alias("ProvisionedConcurrentExecutions", "Maximum", "Allocated"),
            metrics.of_alias("ProvisionedConcurrencySpilloverInvocations", "Sum", "Spillover"),
            right=[
                metrics.of_alias(
                    "ProvisionedConcurrencyUtilization", "Maximum", "Utilization, 0 to 1"
                )
            ],
        )
        return [concurrency, utilization, memory]

    def _cost(self) -> list[cloudwatch.IWidget]:
        memory, cold_start = self._endpoint.settings.memory_mb, self._endpoint.cold_start
        prices = self._prices
        cost = endpoint_cost(self._metrics, memory_mb=memory, cold_start=cold_start, prices=prices)
        return [
            cloudwatch.SingleValueWidget(
                title="US dollars per 1,000 embeddings",
                metrics=[cost.per_thousand],
                width=6,
                height=4,
            ),
            cloudwatch.GraphWidget(
                title="US dollars per hour",
                left=[cost.per_hour],
                width=12,
                height=4,
                left_y_axis=_FROM_ZERO,
            ),
            cloudwatch.TextWidget(
                markdown=f"List prices of [AWS Lambda]({_PRICES_PAGE}) on ARM64, "
                f"{prices.region}, {prices[_DURATION].date}: {_price_list(prices, cold_start)}. "
                f"Storage of {self._endpoint.settings.package}s and logs and your discounts are "
                "not included.",
                width=6,
                height=4,
            ),
        ]

    def _queries(self) -> list[cloudwatch.IWidget]:
        return [
            cloudwatch.LogQueryWidget(
                title=title,
                log_group_names=[self._endpoint.log_group.log_group_name],
                query_lines=list(lines),
                view=cloudwatch.LogQueryVisualizationType.TABLE,
                width=_WIDTH // 2,
                height=_HEIGHT,
            )
            for title, lines in (("Slowest requests", _SLOWEST), ("Cold starts", _COLD_STARTS))
        ]


def _price_list(prices: Prices, kind: ColdStart | None) -> str:
    units = {_DURATION: "GB-second"}
    if isinstance(kind, Provisioned):
        units = {"lambda_provisioned_duration": "GB-second"}
        units["lambda_provisioned"] = "GB-second of provisioned concurrency"
    if isinstance(kind, SnapStart):
        units["lambda_snapshot"] = "GB-second of one snapshot"
        units["lambda_restore"] = "GB of a restore"
    duration_price, *other_prices = (
        f"${prices[line].usd:.10f} per {unit}" for line, unit in units.items()
    )
    requests = f"${prices['lambda_requests'].usd * 1_000_000:.2f} per million requests"
    return ", ".join([duration_price, requests, *other_prices])


def _per_second(metric: cloudwatch.Metric, label: str) -> cloudwatch.MathExpression:
    # All lines of a graph share their ids, so each id is the metric's name.
    name = metric.metric_name.lower()
    return computed(f"{name} / PERIOD({name})", {name: metric}, label)


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
    price_per_second = prices[
        "lambda_provisioned_duration" if provisioned else "lambda_duration"
    ].usd
    used: dict[str, cloudwatch.IMetric] = {
        "billed": metrics.of_platform("BilledDuration", "Sum"),
        "requests": metrics.of_alias("Invocations", "Sum"),
    }
    expression = (
        f"FILL(billed, 0) / 1000 * {_number(gigabytes * price_per_second)}"
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
    price_per_second = memory_mb / 1024 * prices["lambda_duration"].usd
    price_per_second += _CHILD_GB * prices["express_duration"].usd
    request = prices["lambda_requests"].usd + prices["express_requests"].usd
    dollars = f"duration / 1000 * {_number(price_per_second)} + requests * {_number(request)}"
    return computed(
        f"IF(rows > 0, 1000000 * ({dollars}) / rows)",
        {"rows": rows, "duration": duration, "requests": requests},
        "US dollars per million rows",
        period=duration.period if isinstance(duration, cloudwatch.Metric) else PERIOD,
    )


def _number(value: float) -> str:
    # Metric math does not accept exponents.
    return f"{value:.12f}".rstrip("0")
