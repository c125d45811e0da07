"""The stack of the image repository, deployed before anything is published into it."""

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Where
from constructs import Construct

from embedding_kit.environment import Environment
from embedding_kit.repository import EmbeddingRepository
from stacks.names import repository_name
from stacks.owned import own_key

__all__ = ["RepositoryStack"]


class RepositoryStack(Stack):
    """The repository of one environment's images.

    Attributes:
        repository_name: The repository's name as plain text, for the asset's address.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        env: Where,
    ) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: image repository",
            termination_protection=environment.protect,
        )
        self.repository_name = repository_name(environment.name)
        made = EmbeddingRepository(
            self,
            "Repository",
            name=self.repository_name,
            settings=environment.repository,
            key=own_key(self, environment),
        )
        CfnOutput(self, "RepositoryUri", value=made.repository.repository_uri)
