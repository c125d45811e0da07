"""The stack of the server. Its image is published into the environment's own repository."""

from collections.abc import Mapping

import aws_cdk as cdk

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.fargate_service import EmbeddingService
from embedding_kit.settings import ServerSettings
from embedding_kit.vector_index import IVectorIndex
from stacks.environment_stack import EnvironmentStack
from stacks.names import server_stack_name
from stacks.promoted import image_synthesizer

__all__ = ["ServerStack"]


class ServerStack(EnvironmentStack):
    """The server of one environment.

    Attributes:
        service: The server, for the stack that monitors it.
    """

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        server: ServerSettings,
        *,
        vector_index: IVectorIndex | None,
        images: Mapping[str, str],
    ) -> None:
        """Create the stack."""
        super().__init__(
            app,
            server_stack_name(settings.name),
            settings,
            title="server",
            synthesizer=image_synthesizer(settings, images),
        )
        self.service = EmbeddingService(
            self,
            "Server",
            model=settings.model,
            settings=server,
            name=settings.name,
            function=settings.function,
            vector_index=vector_index,
            deletion_protection=settings.termination_protection,
        )
        balancer = self.service.load_balancer
        cdk.CfnOutput(self, "Url", value=self.service.url)
        cdk.CfnOutput(self, "LoadBalancerName", value=balancer.load_balancer_dns_name)
