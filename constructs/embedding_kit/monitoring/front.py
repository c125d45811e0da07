"""The alarms of a REST API in front of an endpoint, and its row of the dashboard.

Metrics: https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-metrics-and-dimensions.html
"""

from collections.abc import Iterator

from aws_cdk import aws_cloudwatch as cloudwatch

from embedding_kit.endpoint_metrics import metric, milliseconds, percent
from embedding_kit.front.rest_api import STAGE, THROTTLED_METRIC, EmbeddingRestApi
from embedding_kit.monitoring.alarm_definitions import AlarmDefinition
from embedding_kit.monitoring.dashboard import graph
from embedding_kit.settings import AlarmSettings

#: Above this share of 4xx, callers' keys are wrong or somebody tries keys.
_CLIENT_ERROR_PERCENT = 50


def front_widgets(front: EmbeddingRestApi) -> list[cloudwatch.IWidget]:
    """Return the row of the dashboard: requests, duration, errors."""
    return [
        graph(
            "API: requests",
            _of_api(front, "Count", "Sum", "Requests"),
            _of_api(front, "4XXError", "Sum", "Refused (4xx)"),
            _throttled(front, "Throttled (429)"),
        ),
        graph(
            "API: duration, ms",
            _of_api(front, "Latency", "p50", "p50"),
            _of_api(front, "Latency", "p99", "p99"),
            _of_api(front, "IntegrationLatency", "p99", "p99 of the function"),
        ),
        graph("API: failed requests (5xx)", _of_api(front, "5XXError", "Sum", "Failed")),
    ]


def front_alarms(front: EmbeddingRestApi, settings: AlarmSettings) -> Iterator[AlarmDefinition]:
    """List the alarms of a REST API."""
    requests, waits = _of_api(front, "Count", "Sum"), front.settings.timeout
    duration = settings.effective_duration_p99(waits)
    if duration >= waits:  # API Gateway ends such a request.
        duration = waits / 2
    yield AlarmDefinition(
        name="Front5xx",
        page=True,
        metric=percent(_of_api(front, "5XXError", "Sum"), requests, "Failed requests, percent"),
        threshold=settings.error_percent,
        condition="Failed requests (5xx) above {:,g}%",
        advice="The function failed or was throttled, or took longer than API Gateway waits",
    )
    yield AlarmDefinition(
        name="FrontDurationP99",
        essential=True,
        metric=_of_api(front, "Latency", "p99"),
        threshold=milliseconds(duration),
        condition="p99 duration above {:,g} ms",
        advice="Likely longer texts, larger batches or cold starts",
    )
    yield AlarmDefinition(
        name="Front4xx",
        metric=percent(_of_api(front, "4XXError", "Sum"), requests, "Refused requests, percent"),
        threshold=_CLIENT_ERROR_PERCENT,
        every=10,
        condition="Refused requests (4xx) above {:,g}%",
        advice="Likely a wrong key, or an attempt to guess keys; the access log has the reasons",
    )
    yield AlarmDefinition(
        name="FrontThrottled",
        essential=True,
        metric=percent(_throttled(front), requests, "Throttled requests, percent"),
        threshold=settings.error_percent,
        condition="Throttled requests (429) above {:,g}%",
        advice="A caller is over the rate or the monthly quota of its key",
    )


def _of_api(
    front: EmbeddingRestApi, name: str, statistic: str, label: str | None = None
) -> cloudwatch.Metric:
    # Names, not references: the alarms need nothing of the API's stack.
    return metric("AWS/ApiGateway", name, statistic, label, {"ApiName": front.name, "Stage": STAGE})


def _throttled(front: EmbeddingRestApi, label: str | None = None) -> cloudwatch.Metric:
    return metric(front.access_log.namespace, THROTTLED_METRIC, "Sum", label)
