"""The stack of the REST API that callers reach instead of the function's URL."""

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Where
from constructs import Construct

from embedding_kit.endpoint_interface import IEmbeddingEndpoint
from embedding_kit.environment import Environment
from embedding_kit.front.rest_api import EmbeddingRestApi
from embedding_kit.settings import ApiGatewayFront
from stacks.owned import tracing

__all__ = ["FrontStack"]


class FrontStack(Stack):
    """The REST API of one environment.

    Attributes:
        front: The API, for the stack that monitors it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        settings: ApiGatewayFront,
        endpoint: IEmbeddingEndpoint,
        env: Where,
    ) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: API in front of the endpoint",
            termination_protection=environment.protect,
        )
        self.front = EmbeddingRestApi(
            self, "Front", endpoint=endpoint, settings=settings, tracing=tracing(environment)
        )
        CfnOutput(self, "Url", value=self.front.url)
        if self.front.domain:
            CfnOutput(self, "DomainTarget", value=self.front.domain.domain_name_alias_domain_name)
            CfnOutput(
                self, "DomainHostedZone", value=self.front.domain.domain_name_alias_hosted_zone_id
            )
