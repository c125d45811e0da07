"""One page that answers: is it well, is it fast, is it cold, what does it cost."""

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from embedding_kit.alarms import EndpointAlarms
from embedding_kit.cost import cost_per_thousand, cost_rate
from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.metrics import PERIOD
from embedding_kit.prices import LAMBDA_ARM64
from embedding_kit.settings import ColdStart, Provisioned, SnapStart
from embedding_kit.watches import error_rate

__all__ = ["EndpointDashboard"]

_WIDTH = 24
_HEIGHT = 6
_SLOWEST = (
    "fields @timestamp, durationMs, tokens, texts, dialect, status, requestId",
    'filter message = "request"',
    "sort durationMs desc",
    "limit 20",
)
_STARTS = (
    "fields @timestamp, record.metrics.initDurationMs as initMs",
    "fields record.metrics.restoreDurationMs as restoreMs",
    "fields record.metrics.maxMemoryUsedMB as memoryMB",
    'filter type = "platform.report" and (initMs > 0 or restoreMs > 0)',
    "sort @timestamp desc",
    "limit 20",
)


class EndpointDashboard(Construct):
    """The endpoint's dashboard.

    Attributes:
        dashboard: The dashboard.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        endpoint: EmbeddingEndpoint,
        alarms: EndpointAlarms,
    ) -> None:
        """Make the page.

        Args:
            scope: The parent.
            id: The construct's id.
            endpoint: What is shown.
            alarms: Whose state is shown on top.
        """
        super().__init__(scope, id)
        self._endpoint = endpoint
        self._metrics = endpoint.metrics
        self.dashboard = cloudwatch.Dashboard(
            self,
            "Dashboard",
            # Dashboards are global in an account: the region keeps two of one name apart.
            # https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch_Dashboards.html
            dashboard_name=f"EmbeddingKit-{endpoint.name}-{Stack.of(self).region}",
            default_interval=Duration.hours(3),
            period_override=cloudwatch.PeriodOverride.AUTO,
        )
        self.dashboard.add_widgets(*self._well(alarms))
        self.dashboard.add_widgets(*self._traffic())
        self.dashboard.add_widgets(*self._fast())
        self.dashboard.add_widgets(*self._cold())
        self.dashboard.add_widgets(*self._room())
        self.dashboard.add_widgets(*self._cost())
        self.dashboard.add_widgets(*self._queries())

    def _well(self, alarms: EndpointAlarms) -> list[cloudwatch.IWidget]:
        return [
            cloudwatch.AlarmStatusWidget(
                title="Is it well?",
                alarms=[alarms.page, *alarms.alarms.values()],
                width=_WIDTH,
                height=3,
            )
        ]

    def _traffic(self) -> list[cloudwatch.IWidget]:
        metrics = self._metrics
        return [
            _graph(
                "Requests a minute",
                metrics.of_alias("UrlRequestCount", "Sum", "Requests"),
                metrics.of_alias("Url4xxCount", "Sum", "4xx"),
                metrics.of_alias("Url5xxCount", "Sum", "5xx"),
            ),
            _graph(
                "Errors and throttles",
                metrics.of_alias("Errors", "Sum", "Errors"),
                metrics.of_alias("Throttles", "Sum", "Throttled (429)"),
                right=[error_rate(metrics)],
            ),
            _graph(
                "Texts and tokens a second",
                _a_second(metrics.of_embedder("Texts", "Sum"), "Texts"),
                _a_second(metrics.of_embedder("CacheHits", "Sum"), "Texts from the cache"),
                right=[_a_second(metrics.of_embedder("Tokens", "Sum"), "Tokens")],
            ),
        ]

    def _fast(self) -> list[cloudwatch.IWidget]:
        metrics = self._metrics
        limit = self._endpoint.thresholds.duration_p99
        return [
            _graph(
                "Duration, ms",
                *(metrics.of_alias("Duration", p, p) for p in ("p50", "p90", "p99", "Maximum")),
                limit=(limit, "Alarm: slowest hundredth"),
            ),
            _graph(
                "At the URL, ms",
                *(metrics.of_alias("UrlRequestLatency", p, p) for p in ("p50", "p90", "p99")),
            ),
            _graph(
                "Inside a request, ms",
                metrics.of_embedder("TokenizationTime", "p50", "Tokenization, p50"),
                metrics.of_embedder("InferenceTime", "p50", "Inference, p50"),
                metrics.of_embedder("InferenceTime", "p99", "Inference, p99"),
                right=[
                    metrics.of_embedder("PaddingWaste", "Average", "Padding, percent"),
                    metrics.of_embedder("BatchSize", "Average", "Texts in a run"),
                ],
            ),
        ]

    def _cold(self) -> list[cloudwatch.IWidget]:
        metrics = self._metrics
        starts = [metrics.of_platform("InitDuration", p, p) for p in ("p50", "p99", "Maximum")]
        kind = self._endpoint.cold_start
        if isinstance(kind, Provisioned):
            starts.append(
                metrics.of_platform("ProvisionedInitDuration", "Maximum", "Kept ready, maximum")
            )
        if isinstance(kind, SnapStart):
            starts.append(metrics.of_platform("RestoreDuration", "p99", "Restored, p99"))
        return [
            _graph(
                "Cold starts, ms",
                *starts,
                limit=(self._endpoint.thresholds.init_p99, "Alarm: slowest hundredth"),
            ),
            _graph(
                "How many starts",
                metrics.of_platform("InitDuration", "SampleCount", "On demand"),
                metrics.of_platform("RestoreDuration", "SampleCount", "Restored"),
                metrics.of_platform("ProvisionedInitDuration", "SampleCount", "Kept ready"),
                metrics.of_embedder("ColdStarts", "Sum", "First requests after one"),
            ),
            _graph(
                "Requests that met a cold start, percent",
                cloudwatch.MathExpression(
                    expression="IF(requests > 0, 100 * FILL(cold, 0) / requests, 0)",
                    using_metrics={
                        "cold": metrics.of_embedder("ColdStarts", "Sum"),
                        "requests": metrics.of_embedder("Requests", "Sum"),
                    },
                    period=PERIOD,
                    label="Percent",
                ),
            ),
        ]

    def _room(self) -> list[cloudwatch.IWidget]:
        metrics, thresholds = self._metrics, self._endpoint.thresholds
        ready = isinstance(self._endpoint.cold_start, Provisioned)
        width = _WIDTH // 3 if ready else _WIDTH // 2
        concurrency = _graph(
            "Requests at once",
            metrics.of_function("ConcurrentExecutions", "Maximum", "This function"),
            metrics.of_account("ConcurrentExecutions", "Maximum", "All of the account"),
            limit=(thresholds.concurrency_limit, "Limit"),
            width=width,
        )
        memory = _graph(
            "Memory, MB",
            metrics.of_platform("MaxMemoryUsed", "p50", "p50"),
            metrics.of_platform("MaxMemoryUsed", "Maximum", "Maximum"),
            limit=(self._endpoint.settings.memory_mb, "The function's memory"),
            width=width,
        )
        if not ready:
            return [concurrency, memory]
        use = _graph(
            "Environments kept ready",
            metrics.of_alias("ProvisionedConcurrentExecutions", "Maximum", "Ready"),
            metrics.of_alias("ProvisionedConcurrencySpilloverInvocations", "Sum", "Went past them"),
            right=[
                metrics.of_alias("ProvisionedConcurrencyUtilization", "Maximum", "Busy, of one")
            ],
        )
        return [concurrency, use, memory]

    def _cost(self) -> list[cloudwatch.IWidget]:
        memory, kind = self._endpoint.settings.memory_mb, self._endpoint.cold_start
        prices = LAMBDA_ARM64
        rate = cost_rate(self._metrics, memory_mb=memory, cold_start=kind)
        thousand = cost_per_thousand(self._metrics, memory_mb=memory, cold_start=kind)
        return [
            cloudwatch.SingleValueWidget(
                title="1,000 embeddings, US dollars", metrics=[thousand], width=6, height=4
            ),
            cloudwatch.GraphWidget(
                title="US dollars an hour", left=[rate], width=12, height=4, left_y_axis=_FROM_ZERO
            ),
            cloudwatch.TextWidget(
                markdown=f"List prices of [AWS Lambda]({prices.source}) on ARM64, {prices.region}, "
                f"read {prices.read}: {_prices(kind)}. Without storage of images "
                "and logs, and without your discounts.",
                width=6,
                height=4,
            ),
        ]

    def _queries(self) -> list[cloudwatch.IWidget]:
        group = [self._endpoint.log_group.log_group_name]
        return [
            cloudwatch.LogQueryWidget(
                title=title,
                log_group_names=group,
                query_lines=list(lines),
                view=cloudwatch.LogQueryVisualizationType.TABLE,
                width=_WIDTH // 2,
                height=_HEIGHT,
            )
            for title, lines in (("Slowest requests", _SLOWEST), ("Cold starts", _STARTS))
        ]


def _prices(kind: ColdStart) -> str:
    prices = LAMBDA_ARM64
    second = f"${prices.gb_second:.10f} a GB-second"
    more = ""
    if isinstance(kind, Provisioned):
        second = f"${prices.ready_running_gb_second:.10f} a GB-second"
        more = f", ${prices.ready_gb_second:.10f} a GB-second of provisioned concurrency"
    if isinstance(kind, SnapStart):
        more = (
            f", ${prices.snapshot_gb_second:.10f} a GB-second of one snapshot, "
            f"${prices.restore_gb:.10f} a GB of a restore"
        )
    return f"{second}, ${prices.request * 1_000_000:.2f} a million requests{more}"


_FROM_ZERO = cloudwatch.YAxisProps(min=0, show_units=False)


def _graph(
    title: str,
    *left: cloudwatch.IMetric,
    right: list[cloudwatch.IMetric] | None = None,
    limit: tuple[float, str] | None = None,
    width: int = _WIDTH // 3,
) -> cloudwatch.GraphWidget:
    lines = [cloudwatch.HorizontalAnnotation(value=limit[0], label=limit[1])] if limit else []
    return cloudwatch.GraphWidget(
        title=title,
        left=list(left),
        right=right or [],
        left_annotations=lines,
        left_y_axis=_FROM_ZERO,
        right_y_axis=_FROM_ZERO,
        width=width,
        height=_HEIGHT,
    )


def _a_second(metric: cloudwatch.Metric, label: str) -> cloudwatch.MathExpression:
    # Ids are shared by all lines of a graph, so each is named after its metric.
    name = metric.metric_name.lower()
    return cloudwatch.MathExpression(
        expression=f"{name} / PERIOD({name})",
        using_metrics={name: metric},
        period=PERIOD,
        label=label,
    )
