"""The stack of the image repository, deployed before anything is published into it."""

import aws_cdk as cdk

from embedding_kit.storage import EmbeddingRepository
from stacks.environment import EnvironmentSettings
from stacks.environment_stack import EnvironmentStack
from stacks.names import image_repository, repository_stack_name


class RepositoryStack(EnvironmentStack):
    """The repository of one environment's images."""

    def __init__(self, app: cdk.App, settings: EnvironmentSettings) -> None:
        name = repository_stack_name(settings.name)
        super().__init__(app, name, settings, title="image repository")
        images = EmbeddingRepository(
            self,
            "Repository",
            name=image_repository(settings),
            settings=settings.repository,
            removal_policy=cdk.RemovalPolicy[settings.removal_policy.upper()],
            key=self.key,
        )
        cdk.CfnOutput(self, "RepositoryUri", value=images.repository.repository_uri)
