"""The interface of an endpoint, and an endpoint of another stack or app, known by its outputs."""

from collections.abc import Mapping
from typing import Any

from aws_cdk import Fn, Token
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from embedding_kit.endpoint_metrics import EndpointMetrics
from embedding_kit.permissions import grant
from embedding_kit.settings.base import rule_error


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


#: The actions to call a function URL, each with the condition that limits it to the URL.
#: https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html
_CALL = {
    "lambda:InvokeFunctionUrl": {"StringEquals": {"lambda:FunctionUrlAuthType": "AWS_IAM"}},
    "lambda:InvokeFunction": {"Bool": {"lambda:InvokedViaFunctionUrl": "true"}},
}
#: arn:aws:lambda:REGION:ACCOUNT:function:NAME:ALIAS
_ARN_PARTS = 8


class ImportedEndpoint(IEmbeddingEndpoint):
    """An endpoint that this app uses and does not create.

    A grant adds to the policy of a principal of this app, and raises a `ValueError` for one without
    such a policy. A principal of another account also needs permission from the endpoint:
    `Callers`, to invoke with `invoke`.
    """

    def __init__(self, scope: Construct, id: str, *, alias_arn: str, url: str, name: str) -> None:
        """Import the endpoint; see `EmbeddingEndpoint.from_embedding_endpoint_attributes`."""
        super().__init__(scope, id)
        if not Token.is_unresolved(alias_arn) and len(alias_arn.split(":")) != _ARN_PARTS:
            raise rule_error(
                "a permission to call the URL names the alias",
                found=f"alias_arn = {alias_arn}",
                allowed="the ARN of the alias, such as "
                "arn:aws:lambda:eu-central-1:111122223333:function:embedder:live",
            )
        self.alias_arn = alias_arn
        self.url = url
        self.name = name
        self.metrics = EndpointMetrics(
            lambda_.Function.from_function_arn(self, "Function", alias_arn),
            alias_name=Fn.select(_ARN_PARTS - 1, Fn.split(":", alias_arn)),
            namespace=f"EmbeddingKit/{name}",
        )

    def grant_invoke_url(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant a principal of this app permission to call the URL, and nothing else."""
        return self._grant(grantee, _CALL)

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Grant a principal of this app permission to call by Lambda's Invoke, and nothing else."""
        return self._grant(grantee, {"lambda:InvokeFunction": None})

    def _grant(
        self, grantee: iam.IGrantable, actions: Mapping[str, Mapping[str, Any] | None]
    ) -> iam.Grant:
        granted = [
            grant(grantee, [action], self.alias_arn, condition)
            for action, condition in actions.items()
        ]
        if not all(permission.success for permission in granted):
            raise rule_error(
                "an imported endpoint can grant a principal only by the principal's own policy",
                found=type(grantee.grant_principal).__name__,
                allowed="a role, a user or a group, or to list the principal in the callers of "
                "the endpoint itself",
            )
        return granted[0].combine(granted[1]) if len(granted) > 1 else granted[0]
