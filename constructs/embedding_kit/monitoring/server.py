"""The alarms of a server, and its row of the dashboard."""

from collections.abc import Iterator
from datetime import timedelta

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_elasticloadbalancingv2 as elbv2

from embedding_kit.endpoint_metrics import PERIOD, computed, metric, percent
from embedding_kit.fargate_service import REJECTED_METRIC, EmbeddingService
from embedding_kit.monitoring.alarm_definitions import MEMORY_PERCENT, AlarmDefinition
from embedding_kit.monitoring.dashboard import graph
from embedding_kit.settings import AlarmSettings

#: The server's own limit on a request.
_TIMEOUT = timedelta(seconds=30)
#: Scaling adds tasks long before, so the highest number of tasks is reached.
_CPU_PERCENT = 90


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
        threshold=settings.effective_duration_p99(_TIMEOUT).total_seconds(),
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
        threshold=_CPU_PERCENT,
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
