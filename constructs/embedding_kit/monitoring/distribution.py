"""The alarms of a CloudFront distribution, and its row of the dashboard.

Metrics: https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/programming-cloudwatch-metrics.html
"""

from collections.abc import Iterator

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sns as sns
from constructs import Construct

from embedding_kit.front.distribution import EmbeddingDistribution
from embedding_kit.monitoring.alarm_definitions import AlarmDefinition
from embedding_kit.monitoring.alarms import NotifyingAlarms
from embedding_kit.monitoring.graphs import graph
from embedding_kit.monitoring.metrics import PERIOD
from embedding_kit.settings import EDGE_REGION, AlarmSettings

__all__ = ["DistributionAlarms", "distribution_widgets"]

#: Above this share of 4xx, callers' keys are wrong or somebody tries keys.
_CLIENT_ERROR_PERCENT = 50


class DistributionAlarms(NotifyingAlarms):
    """Alarms on a distribution, in a stack in us-east-1. Each notifies the topic itself.

    Attributes:
        alarms: Each alarm by its name.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        front: EmbeddingDistribution,
        settings: AlarmSettings | None = None,
        topic: sns.ITopic | None = None,
    ) -> None:
        """Create the alarms.

        Args:
            scope: The parent.
            id: The construct's id.
            front: The distribution.
            settings: The threshold of errors, and the runbook.
            topic: A topic in us-east-1 that all alarms notify. Its key must let CloudWatch encrypt.
        """
        settings = settings or AlarmSettings()
        super().__init__(
            scope,
            id,
            definitions=_definitions(front.distribution.distribution_id, settings),
            topic=topic,
            runbook_url=settings.runbook_url,
        )


def distribution_widgets(front: EmbeddingDistribution) -> list[cloudwatch.IWidget]:
    """Return the row of a dashboard in any region: requests, errors, bytes."""
    named = front.distribution.distribution_id
    return [
        graph("CloudFront: requests", _metric(named, "Requests", "Sum", "Requests")),
        graph(
            "CloudFront: errors, percent",
            _metric(named, "4xxErrorRate", "Average", "Refused (4xx)"),
            _metric(named, "5xxErrorRate", "Average", "Failed (5xx)"),
        ),
        graph(
            "CloudFront: bytes",
            _metric(named, "BytesUploaded", "Sum", "Received"),
            _metric(named, "BytesDownloaded", "Sum", "Sent"),
        ),
    ]


def _definitions(distribution: str, settings: AlarmSettings) -> Iterator[AlarmDefinition]:
    yield AlarmDefinition(
        name="Edge5xx",
        metric=_metric(distribution, "5xxErrorRate", "Average"),
        threshold=settings.error_percent,
        condition="Failed requests (5xx) above {:,g}%",
        advice="The function failed, was throttled or took too long, or the check of keys failed",
    )
    yield AlarmDefinition(
        name="Edge4xx",
        metric=_metric(distribution, "4xxErrorRate", "Average"),
        threshold=_CLIENT_ERROR_PERCENT,
        datapoints=10,
        periods=10,
        condition="Refused requests (4xx) above {:,g}%",
        advice="Likely a wrong key, an attempt to guess keys, or requests that the firewall blocks",
    )


def _metric(
    distribution: str, name: str, statistic: str, label: str | None = None
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/CloudFront",
        metric_name=name,
        dimensions_map={"DistributionId": distribution, "Region": "Global"},
        statistic=statistic,
        period=PERIOD,
        label=label,
        region=EDGE_REGION,
    )
