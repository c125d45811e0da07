"""The stack of the image repository, deployed before anything is published into it."""

import aws_cdk as cdk

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.repository import EmbeddingRepository
from stacks.environment_stack import EnvironmentStack
from stacks.names import repository_name, repository_stack_name

__all__ = ["RepositoryStack"]


class RepositoryStack(EnvironmentStack):
    """The repository of one environment's images."""

    def __init__(self, app: cdk.App, settings: EnvironmentSettings) -> None:
        """Create the stack."""
        super().__init__(
            app, repository_stack_name(settings.name), settings, title="image repository"
        )
        made = EmbeddingRepository(
            self,
            "Repository",
            name=repository_name(settings.name),
            settings=settings.repository,
            removal_policy=cdk.RemovalPolicy[settings.removal_policy.upper()],
            key=self.key,
        )
        cdk.CfnOutput(self, "RepositoryUri", value=made.repository.repository_uri)
