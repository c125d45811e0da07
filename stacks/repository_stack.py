"""The stack of the image repository, deployed before anything is published into it."""

import aws_cdk as cdk

from embedding_kit.repository import EmbeddingRepository
from embedding_kit.settings import RepositorySettings
from stacks.environment_stack import EnvironmentStack, Foundation
from stacks.names import repository_stack_name


class RepositoryStack(EnvironmentStack):
    """The repository of one environment's images."""

    def __init__(
        self, app: cdk.App, foundation: Foundation, repository: RepositorySettings
    ) -> None:
        """Create the stack."""
        name = repository_stack_name(foundation.name)
        super().__init__(app, name, foundation, title="image repository")
        made = EmbeddingRepository(
            self,
            "Repository",
            name=foundation.repository,
            settings=repository,
            removal_policy=foundation.removal_policy,
            key=self.key,
        )
        cdk.CfnOutput(self, "RepositoryUri", value=made.repository.repository_uri)
