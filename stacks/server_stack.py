"""The stack of the server. Its image is published into the environment's own repository."""

from collections.abc import Mapping

import aws_cdk as cdk

from embedding_kit.fargate_service import EmbeddingService
from embedding_kit.settings import ServerSettings
from stacks.environment import EnvironmentSettings
from stacks.environment_stack import EnvironmentStack
from stacks.index_stack import IndexStack
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
        settings: EnvironmentSettings,
        server: ServerSettings,
        images: Mapping[str, str],
        *,
        index: IndexStack | None,
    ) -> None:
        """Create the stack; the server searches the index of another one."""
        name, synthesizer = server_stack_name(settings.name), image_synthesizer(settings, images)
        super().__init__(app, name, settings, title="server", synthesizer=synthesizer)
        self.service = EmbeddingService(
            self,
            "Server",
            model=settings.model,
            settings=server,
            name=settings.name,
            function=settings.function,
            vector_index=index.index if index else None,
            existing_keys=settings.existing.keys if settings.existing else (),
            deletion_protection=settings.termination_protection,
        )
        self.keep_log(self.service.log_group)
        if index and index.standby_index:
            # The tasks before a switch have the same role, and still answer for a time.
            index.standby_index.grant_query(self.service.service.task_definition.task_role)
        balancer = self.service.load_balancer
        cdk.CfnOutput(self, "Url", value=self.service.url)
        cdk.CfnOutput(self, "LoadBalancerName", value=balancer.load_balancer_dns_name)
