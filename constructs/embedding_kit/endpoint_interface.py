"""The interface of an endpoint: its address, permission to call it, and its metrics."""

from typing import Any

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

from embedding_kit.metrics import EndpointMetrics

__all__ = ["IEmbeddingEndpoint"]


class IEmbeddingEndpoint(Construct):
    """An endpoint that this app creates, or one that it imports.

    Attributes:
        url: The function URL. It accepts only requests that a granted principal has signed.
        alias_arn: The ARN of the alias that the URL belongs to, for policies.
        name: The name in logs and in the metrics' namespace.
        metrics: All metrics of the endpoint.
    """

    url: str
    alias_arn: str
    name: str
    metrics: EndpointMetrics

    def grant_invoke_url(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant a principal permission to call the URL, and nothing else."""
        raise NotImplementedError

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant a principal permission to call by Lambda's Invoke, and nothing else.

        Callers without a way to the URL, in a private network, use it.
        """
        raise NotImplementedError

    def metric(self, name: str, *, statistic: str = "Average", **options: Any) -> cloudwatch.Metric:
        """Return an AWS Lambda metric of the alias.

        Args:
            name: The metric's name in the namespace AWS/Lambda, such as `UrlRequestCount`.
            statistic: The statistic, such as `Sum`.
            options: Further properties of `aws_cloudwatch.MetricOptions`, such as `period`.
        """
        return self.metrics.of_alias(name, statistic).with_(**options)

    def metric_duration(self, *, statistic: str = "p99", **options: Any) -> cloudwatch.Metric:
        """Return the duration of requests in milliseconds, with `MetricOptions`."""
        return self.metric("Duration", statistic=statistic, **options)

    def metric_errors(self, *, statistic: str = "Sum", **options: Any) -> cloudwatch.Metric:
        """Return the number of failed invocations, with `MetricOptions`."""
        return self.metric("Errors", statistic=statistic, **options)

    def metric_invocations(self, *, statistic: str = "Sum", **options: Any) -> cloudwatch.Metric:
        """Return the number of invocations, with `MetricOptions`."""
        return self.metric("Invocations", statistic=statistic, **options)

    def metric_throttles(self, *, statistic: str = "Sum", **options: Any) -> cloudwatch.Metric:
        """Return the number of throttled invocations, with `MetricOptions`."""
        return self.metric("Throttles", statistic=statistic, **options)

    def metric_init_duration(self, *, statistic: str = "p99", **options: Any) -> cloudwatch.Metric:
        """Return the init duration of on-demand cold starts in ms, with `MetricOptions`."""
        return self.metrics.of_platform("InitDuration", statistic).with_(**options)

    def metric_texts(self, *, statistic: str = "Sum", **options: Any) -> cloudwatch.Metric:
        """Return the number of embedded texts, with `MetricOptions`."""
        return self.metrics.of_embedder("Texts", statistic).with_(**options)
