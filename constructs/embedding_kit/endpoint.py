"""The endpoint: function, version, alias `live`, and on the alias a URL that wants a signature."""

from typing import Any

from aws_cdk import Names
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from embedding_kit.callers import principals
from embedding_kit.function import EmbeddingFunction
from embedding_kit.settings import (
    AllAtOnce,
    Callers,
    ColdStart,
    Experiment,
    FunctionSettings,
    Model,
    OnDemand,
    Release,
    SnapStart,
    check_together,
)

__all__ = ["LIVE", "EmbeddingEndpoint"]

#: The alias that callers reach. Its name is part of its ARN, which their policies may name.
LIVE = "live"


class EmbeddingEndpoint(Construct):
    """A text-embedding endpoint: signed HTTP requests in, vectors out.

    The URL stands on the alias, never on the function: an unqualified URL would bypass provisioned
    concurrency and every careful release.

    Attributes:
        function: The function behind the alias.
        alias: The alias `live`.
        url: The function URL on the alias; it accepts requests signed by a granted principal only.
        log_group: Where the function and the platform write.
        metrics_namespace: The CloudWatch namespace of the embedder's own metrics.
        settings: The function's settings, as the alarms' thresholds are derived from them.
        cold_start: What is done about cold starts.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        function: FunctionSettings | None = None,
        cold_start: ColdStart | None = None,
        release: Release | None = None,
        experiment: Experiment | None = None,
        callers: Callers | None = None,
        name: str | None = None,
    ) -> None:
        """Make the endpoint.

        Args:
            scope: The parent.
            id: The construct's id.
            model: The model that is served.
            function: Memory, time, disk, logs and concurrency.
            cold_start: What is done about cold starts; nothing by default.
            release: How a new version takes over; all at once, after its check, by default.
            experiment: Another published version to compare with.
            callers: Who may call; nobody by default. `grant_invoke` lets further ones.
            name: What its logs and its metrics' namespace call it, unique in account and region;
                made of its place in the app by default.

        Raises:
            ValueError: The settings, each fine by itself, do not go together.
        """
        super().__init__(scope, id)
        self.settings = function or FunctionSettings()
        self.cold_start = cold_start or OnDemand()
        self.release = release or AllAtOnce()
        check_together(
            function=self.settings,
            cold_start=self.cold_start,
            release=self.release,
            experiment=experiment,
        )
        # One namespace an endpoint: metrics made from the platform's records carry no dimension
        # that would tell two endpoints of an account apart.
        name = name or Names.unique_resource_name(self, separator="-", max_length=100)
        self.metrics_namespace = f"EmbeddingKit/{name}"
        made = EmbeddingFunction(
            self,
            "Embedder",
            model=model,
            settings=self.settings,
            metrics_namespace=self.metrics_namespace,
            name=name,
            snap_start=isinstance(self.cold_start, SnapStart),
        )
        self.function = made.function
        self.log_group = made.log_group
        self.alias = lambda_.Alias(
            self, "Live", alias_name=LIVE, version=self.function.current_version
        )
        self.url = _url(self.alias)
        for principal in principals(callers or Callers()):
            self.url.grant_invoke_url(principal)

    def grant_invoke(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let a principal call the URL of the alias `live`, and nothing else of the function."""
        return self.url.grant_invoke_url(grantee)

    def metric(self, name: str, **options: Any) -> cloudwatch.Metric:
        """Return a metric that AWS Lambda keeps of the alias `live`.

        Args:
            name: The metric's name in the namespace AWS/Lambda, such as `Duration`.
            options: What `aws_cloudwatch.MetricOptions` takes, such as `statistic` and `period`.
        """
        return self.alias.metric(name, **options)


def _url(alias: lambda_.Alias) -> lambda_.FunctionUrl:
    return alias.add_function_url(
        auth_type=lambda_.FunctionUrlAuthType.AWS_IAM, invoke_mode=lambda_.InvokeMode.BUFFERED
    )
