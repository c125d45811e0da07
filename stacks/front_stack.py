"""The stack of the REST API that callers reach instead of the function's URL."""

import aws_cdk as cdk

from embedding_kit.endpoint_interface import IEmbeddingEndpoint
from embedding_kit.rest_api import EmbeddingRestApi
from embedding_kit.settings import ApiGatewayFront
from stacks.environment import EnvironmentSettings
from stacks.environment_stack import EnvironmentStack
from stacks.names import front_stack_name


class FrontStack(EnvironmentStack):
    """The REST API of one environment.

    Attributes:
        front: The API, for the stack that monitors it.
    """

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        front: ApiGatewayFront,
        endpoint: IEmbeddingEndpoint,
    ) -> None:
        name = front_stack_name(settings.name)
        super().__init__(app, name, settings, title="API in front of the endpoint")
        self.front = EmbeddingRestApi(
            self, "Front", endpoint=endpoint, settings=front, tracing=self.tracing
        )
        cdk.CfnOutput(self, "Url", value=self.front.url)
        domain = self.front.domain
        if domain:
            cdk.CfnOutput(self, "DomainTarget", value=domain.domain_name_alias_domain_name)
            cdk.CfnOutput(self, "DomainHostedZone", value=domain.domain_name_alias_hosted_zone_id)
