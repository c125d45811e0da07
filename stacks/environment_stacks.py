"""The stacks of one environment, with their dependencies."""

from collections.abc import Mapping

import aws_cdk as cdk

from embedding_kit.monitoring.parts import AlarmedPart
from stacks.artifact_stack import ArtifactStack
from stacks.batch_stack import BatchStack
from stacks.endpoint_stack import EndpointStack
from stacks.environment import EnvironmentSettings
from stacks.front_stack import FrontStack
from stacks.index_stack import IndexStack
from stacks.names import has_bucket_stack, has_repository_stack
from stacks.observability_stack import STANDBY, ObservabilityStack
from stacks.repository_stack import RepositoryStack
from stacks.server_stack import ServerStack


class EnvironmentStacks:
    """The stacks of an environment in an app, of which those that it does not need are None.

    Args:
        app: The app.
        settings: The environment's settings.
        images: The digests of images in the environment's repository, by target; without them each
            image is built.
    """

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        *,
        images: Mapping[str, str] | None = None,
    ) -> None:
        images = images or {}
        self.repository = RepositoryStack(app, settings) if has_repository_stack(settings) else None
        self.artifact = ArtifactStack(app, settings) if has_bucket_stack(settings) else None
        index = IndexStack(app, settings, settings.index, images) if settings.index else None
        self.index = index
        self.endpoint = EndpointStack(app, settings, images, index=index)
        endpoint = self.endpoint.endpoint
        self.front = FrontStack(app, settings, settings.front, endpoint) if settings.front else None
        self.batch = BatchStack(app, settings, settings.batch, images) if settings.batch else None
        self.server: ServerStack | None = None
        if settings.server:
            self.server = ServerStack(app, settings, settings.server, images, index=index)
        self.observability: ObservabilityStack | None = None
        if settings.branch_of is None:
            parts: dict[str, AlarmedPart | None] = {
                "BatchAlarms": self.batch.batch if self.batch else None,
                "LoadAlarm": index.loading if index else None,
                "DocumentAlarms": index.ingestion if index else None,
                STANDBY: index.standby_ingestion if index else None,
                "ServerAlarms": self.server.service if self.server else None,
                "FrontAlarms": self.front.front if self.front else None,
            }
            self.observability = ObservabilityStack(app, settings, endpoint, parts)
        if self.repository:
            reason = "the image is published into the repository"
            for stack in filter(None, (self.index, self.endpoint, self.batch, self.server)):
                stack.add_stack_dependency(self.repository, reason)
        if self.artifact:
            reason = "the artifact is published into the bucket"
            self.endpoint.add_stack_dependency(self.artifact, reason)
