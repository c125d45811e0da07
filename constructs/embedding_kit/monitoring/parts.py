"""The alarms of what an app has besides the endpoint, and its row of the dashboard.

Those of a REST API and of a server are defined here, the others in `jobs.py`. API Gateway's
metrics:
https://docs.aws.amazon.com/apigateway/latest/developerguide/api-gateway-metrics-and-dimensions.html
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_elasticloadbalancingv2 as elbv2
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.endpoint_metrics import PERIOD, computed, metric, milliseconds, percent
from embedding_kit.fargate_service import REJECTED_METRIC, EmbeddingService
from embedding_kit.ingestion import Ingestion
from embedding_kit.jobs import EmbeddingBatch, IndexLoading
from embedding_kit.monitoring.alarm_definitions import (
    MEMORY_PERCENT,
    AlarmDefinition,
    watched,
    with_warnings,
)
from embedding_kit.monitoring.alarms import make_alarm
from embedding_kit.monitoring.dashboard import graph
from embedding_kit.monitoring.jobs import (
    batch_alarms,
    batch_widgets,
    ingest_alarms,
    ingest_widgets,
    load_alarms,
    load_widgets,
)
from embedding_kit.rest_api import STAGE, THROTTLED_METRIC, EmbeddingRestApi
from embedding_kit.settings import AlarmSettings, Watch

#: A construct with alarms and a row of the dashboard, besides the endpoint.
AlarmedPart = EmbeddingBatch | IndexLoading | Ingestion | EmbeddingService | EmbeddingRestApi
#: Above this share of 4xx, callers' keys are wrong or somebody tries keys.
_API_4XX_PERCENT = 50
#: The server's own limit on a request.
_SERVER_TIMEOUT = timedelta(seconds=30)
#: Scaling adds tasks long before, so the highest number of tasks is reached.
_SERVER_CPU_PERCENT = 90


class PartAlarms(Construct):
    """Alarms on batch jobs, loads of an index, documents, a server or a REST API.

    Each notifies a topic itself, without a composite alarm.

    Args:
        part: What the alarms are about.
        settings: The thresholds of a server and of a REST API, and the runbook. Default: those of
            `AlarmSettings`.
        topic: A topic that all alarms notify. Its key must let CloudWatch encrypt. Default: none.
        page_topic: Another topic for the alarm on failed requests of a server or of a REST API,
            also when it is over. Default: `topic`.
        watch: Whether there are only the essential alarms. Default: all of them.
        prefix: Begins the alarms' descriptions and the titles of documents' graphs, to tell two of
            a kind apart. Default: nothing.

    Attributes:
        alarms: Each alarm by its name.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        part: AlarmedPart,
        settings: AlarmSettings | None = None,
        topic: sns.ITopic | None = None,
        page_topic: sns.ITopic | None = None,
        watch: Watch = "full",
        prefix: str = "",
    ) -> None:
        super().__init__(scope, id)
        settings = settings or AlarmSettings()
        definitions, self._title, self._graphs = _monitoring(part, settings, prefix)
        self.alarms: dict[str, cloudwatch.Alarm] = {}
        for definition in watched(with_warnings(definitions, settings.warning_percent), watch):
            named = replace(definition, condition=f"{prefix}{definition.condition}")
            alarm = make_alarm(self, named, settings.runbook_url)
            self.alarms[definition.name] = alarm
            if definition.page and page_topic:
                alarm.add_alarm_action(actions.SnsAction(page_topic))
                alarm.add_ok_action(actions.SnsAction(page_topic))
            elif topic:
                alarm.add_alarm_action(actions.SnsAction(topic))

    def widgets(self) -> list[cloudwatch.IWidget]:
        """Return the row of a dashboard, for its `add_widgets`."""
        if not self._title:
            return self._graphs
        alarms: list[cloudwatch.IAlarm] = [*self.alarms.values()]
        status = cloudwatch.AlarmStatusWidget(
            title=f"{self._title}: alarms", alarms=alarms, width=24, height=2
        )
        return [status, *self._graphs]


def _monitoring(
    part: AlarmedPart, settings: AlarmSettings, prefix: str
) -> tuple[Iterator[AlarmDefinition], str, list[cloudwatch.IWidget]]:
    """Return the alarms, the title of their state on the dashboard, if it is shown, and graphs."""
    if isinstance(part, EmbeddingBatch):
        return batch_alarms(part), "Batch", batch_widgets(part)
    if isinstance(part, IndexLoading):
        return load_alarms(part), "", load_widgets(part)
    if isinstance(part, Ingestion):
        return ingest_alarms(part), f"{prefix}Documents", ingest_widgets(part, prefix)
    if isinstance(part, EmbeddingService):
        return server_alarms(part, settings), "Server", server_widgets(part)
    return front_alarms(part, settings), "API", front_widgets(part)


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
        threshold=_API_4XX_PERCENT,
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


def server_widgets(service: EmbeddingService) -> list[cloudwatch.IWidget]:
    """Return the row of the dashboard: requests, duration, tasks and their load."""
    return [
        graph(
            "Server: requests",
            _balanced(service, "RequestCount", "Sum", "Requests"),
            _failed(service, "FILL(failed, 0) + FILL(unanswered, 0)", "Failed (5xx)"),
            _rejected(service, "Rejected (429)"),
        ),
        graph(
            "Server: duration, seconds",
            *(_balanced(service, "TargetResponseTime", p, p) for p in ("p50", "p99")),
        ),
        graph(
            "Server: tasks",
            _balanced(service, "HealthyHostCount", "Minimum", "Healthy"),
            _balanced(service, "UnHealthyHostCount", "Maximum", "Unhealthy"),
            right=[
                service.service.metric_cpu_utilization(period=PERIOD, label="CPU, percent"),
                service.service.metric_memory_utilization(
                    period=PERIOD, statistic="Maximum", label="Memory, percent"
                ),
            ],
        ),
    ]


def server_alarms(service: EmbeddingService, settings: AlarmSettings) -> Iterator[AlarmDefinition]:
    """List the alarms of a server."""
    requests = _balanced(service, "RequestCount", "Sum")
    yield AlarmDefinition(
        name="Server5xx",
        page=True,
        # A request without a task to send it to is not among the load balancer's requests.
        metric=_failed(
            service,
            "IF(FILL(requests, 0) + FILL(unanswered, 0) > 0, 100 * (FILL(failed, 0) + "
            "FILL(unanswered, 0)) / (FILL(requests, 0) + FILL(unanswered, 0)), 0)",
            "Failed requests, percent",
            requests=requests,
        ),
        threshold=settings.error_percent,
        condition="Failed requests (5xx) above {:,g}%",
        advice="The load balancer has no healthy task, or the log has the fault",
    )
    yield AlarmDefinition(
        name="ServerDurationP99",
        essential=True,
        metric=_balanced(service, "TargetResponseTime", "p99"),
        threshold=settings.effective_duration_p99(_SERVER_TIMEOUT).total_seconds(),
        condition="p99 duration above {:,g} s",
        advice="Likely longer texts, larger batches, or too few tasks",
    )
    yield AlarmDefinition(
        name="ServerUnhealthy",
        metric=_balanced(service, "UnHealthyHostCount", "Maximum"),
        threshold=0,
        every=5,
        condition="Unhealthy tasks above {:,g}",
        advice="A task does not get ready, or is overloaded for so long that it is replaced",
    )
    yield AlarmDefinition(
        name="ServerCpu",
        metric=service.service.metric_cpu_utilization(period=PERIOD),
        threshold=_SERVER_CPU_PERCENT,
        every=10,
        condition="CPU utilization above {:,g}%",
        advice="Likely the highest number of tasks is reached",
    )
    yield AlarmDefinition(
        name="ServerMemory",
        metric=service.service.metric_memory_utilization(period=PERIOD, statistic="Maximum"),
        threshold=MEMORY_PERCENT,
        condition="Memory utilization above {:,g}%",
        advice="ECS ends a task without memory, and its requests fail",
    )
    yield AlarmDefinition(
        name="ServerRejected",
        essential=True,
        # The load balancer counts a 429 only among all 4xx.
        metric=percent(_rejected(service), requests, "Rejected requests, percent"),
        threshold=settings.error_percent,
        condition="Rejected requests (429) above {:,g}%",
        advice="The queue is full, or a key is over its limits",
    )


def _failed(
    service: EmbeddingService, expression: str, label: str, **others: cloudwatch.IMetric
) -> cloudwatch.MathExpression:
    """Return an expression of the tasks' failures and those of the load balancer itself."""
    used = {
        "failed": _balanced(service, "HTTPCode_Target_5XX_Count", "Sum"),
        "unanswered": service.load_balancer.metrics.http_code_elb(
            elbv2.HttpCodeElb.ELB_5XX_COUNT, period=PERIOD, statistic="Sum"
        ),
    }
    return computed(expression, used | others, label)


def _balanced(
    service: EmbeddingService, name: str, statistic: str, label: str | None = None
) -> cloudwatch.Metric:
    """Return a metric of the load balancer about the tasks."""
    # Those of the CDK take the load balancer's name from its listener's ARN, by functions that
    # CloudFormation may not take on a value of another stack.
    dimensions = {
        "LoadBalancer": service.load_balancer.load_balancer_full_name,
        "TargetGroup": service.target_group.target_group_full_name,
    }
    return metric("AWS/ApplicationELB", name, statistic, label, dimensions)


def _rejected(service: EmbeddingService, label: str | None = None) -> cloudwatch.Metric:
    return metric(service.namespace, REJECTED_METRIC, "Sum", label)
