"""The stack of the server. Its image is published into the environment's own repository."""

import aws_cdk as cdk

from embedding_kit.fargate_service import EmbeddingService
from embedding_kit.settings import FunctionSettings, Model, ServerSettings
from embedding_kit.vector_index import IVectorIndex
from stacks.environment_stack import EnvironmentStack, Foundation
from stacks.names import server_stack_name
from stacks.promoted import image_synthesizer


class ServerStack(EnvironmentStack):
    """The server of one environment.

    Attributes:
        service: The server, for the stack that monitors it.
    """

    def __init__(
        self,
        app: cdk.App,
        foundation: Foundation,
        server: ServerSettings,
        *,
        model: Model,
        function: FunctionSettings,
        vector_index: IVectorIndex | None,
        standby_index: IVectorIndex | None,
    ) -> None:
        """Create the stack."""
        super().__init__(
            app,
            server_stack_name(foundation.name),
            foundation,
            title="server",
            synthesizer=image_synthesizer(foundation.repository, foundation.images, model),
        )
        self.service = EmbeddingService(
            self,
            "Server",
            model=model,
            settings=server,
            name=foundation.name,
            function=function,
            vector_index=vector_index,
            existing_keys=foundation.existing_keys,
            deletion_protection=foundation.termination_protection,
        )
        if standby_index:
            # The tasks before a switch have the same role, and still answer for a time.
            standby_index.grant_query(self.service.service.task_definition.task_role)
        balancer = self.service.load_balancer
        cdk.CfnOutput(self, "Url", value=self.service.url)
        cdk.CfnOutput(self, "LoadBalancerName", value=balancer.load_balancer_dns_name)
