"""The stack of the server. Its image is published into the environment's own repository."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Where
from constructs import Construct

from embedding_kit.environment import Environment
from embedding_kit.service import EmbeddingService
from embedding_kit.settings import ServerSettings
from embedding_kit.vector_index import IVectorIndex
from stacks.promoted_images import image_synthesizer

__all__ = ["ServerStack"]


class ServerStack(Stack):
    """The server of one environment.

    Attributes:
        service: The server, for the stack that monitors it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        settings: ServerSettings,
        repository_name: str,
        vector_index: IVectorIndex | None,
        images: Mapping[str, str] | None = None,
        env: Where,
    ) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: server",
            termination_protection=environment.protect,
            synthesizer=image_synthesizer(repository_name, images),
        )
        self.service = EmbeddingService(
            self,
            "Server",
            model=environment.model,
            settings=settings,
            name=environment.name,
            function=environment.function,
            vector_index=vector_index,
            protect=environment.protect,
        )
        CfnOutput(self, "Url", value=self.service.url)
        CfnOutput(self, "LoadBalancerName", value=self.service.load_balancer.load_balancer_dns_name)
