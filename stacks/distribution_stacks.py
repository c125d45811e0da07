"""The two stacks of a distribution: itself in us-east-1, and its access in the endpoint's region.

Values pass between the regions by `Fn::GetStackOutput`, which needs no resources of its own:
https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/intrinsic-function-reference-getstackoutput.html
"""

from aws_cdk import CfnOutput, Fn, Stack
from aws_cdk import Environment as Where
from constructs import Construct

from embedding_kit.endpoint_interface import IEmbeddingEndpoint
from embedding_kit.environment import Environment
from embedding_kit.front.distribution import DistributionAccess, EmbeddingDistribution
from embedding_kit.monitoring.distribution import DistributionAlarms
from embedding_kit.monitoring.topic import AlarmTopic
from embedding_kit.settings import EDGE_REGION, CloudFrontFront

__all__ = ["DistributionAccessStack", "EdgeStack"]

_HOST = "UrlHost"


class EdgeStack(Stack):
    """The distribution of one environment, and what CloudFront has in us-east-1 alone.

    Attributes:
        front: The distribution, for the stacks that refer to it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        settings: CloudFrontFront,
        endpoint: IEmbeddingEndpoint,
    ) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=Where(account=environment.account, region=EDGE_REGION),
            description=f"Embedding Kit, {environment.name}: CloudFront in front of the endpoint",
            termination_protection=environment.protect,
        )
        self.add_stack_dependency(Stack.of(endpoint), "the distribution's origin is its URL")
        self.front = EmbeddingDistribution(
            self,
            "Front",
            host=_host(endpoint),
            name=environment.name,
            settings=settings,
        )
        # CloudWatch has CloudFront's metrics in this region, and an alarm notifies a topic of its
        # own region.
        notices = AlarmTopic(self, "Notices", emails=environment.alarms.emails)
        DistributionAlarms(
            self,
            "Alarms",
            front=self.front,
            settings=environment.alarms,
            topic=notices.topic,
        )
        CfnOutput(self, "AlarmTopicArn", value=notices.topic.topic_arn)


class DistributionAccessStack(Stack):
    """The distribution's access to the endpoint, and its address and ids as outputs."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        endpoint: IEmbeddingEndpoint,
        front: EmbeddingDistribution,
        env: Where,
    ) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: access of CloudFront to the endpoint",
            termination_protection=environment.protect,
        )
        DistributionAccess(
            self,
            "Access",
            alias_arn=endpoint.alias_arn,
            distribution_id=front.distribution.distribution_id,
        )
        CfnOutput(self, "Url", value=front.url)
        CfnOutput(self, "DistributionId", value=front.distribution.distribution_id)
        CfnOutput(self, "KeyStoreArn", value=front.key_store.key_value_store_arn)
        if front.settings.domain:
            CfnOutput(self, "DomainTarget", value=front.distribution.distribution_domain_name)


def _host(endpoint: IEmbeddingEndpoint) -> str:
    """Return the host of the function URL, as an output of the endpoint's stack.

    The URL is divided in that stack: a function may take a value of another stack only whole.
    """
    stack = Stack.of(endpoint)
    CfnOutput(stack, _HOST, value=Fn.select(2, Fn.split("/", endpoint.url)))
    return Fn.get_stack_output(stack.stack_name, _HOST, stack.region)
