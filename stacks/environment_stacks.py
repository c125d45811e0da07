"""The stacks of one environment, with their dependencies."""

from collections.abc import Mapping

import aws_cdk as cdk

from embedding_kit.environment import EnvironmentSettings
from stacks.artifact_stack import ArtifactStack
from stacks.batch_stack import BatchStack
from stacks.endpoint_stack import EndpointStack
from stacks.front_stack import FrontStack
from stacks.index_stack import IndexStack
from stacks.names import has_bucket_stack, has_repository_stack
from stacks.observability_stack import ObservabilityStack
from stacks.repository_stack import RepositoryStack
from stacks.server_stack import ServerStack

__all__ = ["EnvironmentStacks"]


class EnvironmentStacks:
    """The stacks of an environment in an app.

    Attributes:
        artifact: The stack of the bucket of artifacts; None without an artifact in S3, or with an
            existing bucket.
        repository: The stack of the image repository; None if nothing is deployed as an image, or
            with an existing repository.
        index: The stack of the vector index; None without one.
        endpoint: The stack of the endpoint.
        front: The stack of the API in front of it; None without one.
        batch: The stack of the batch jobs; None without them.
        server: The stack of the server; None without it.
        observability: The stack of alarms, dashboard and budget.
    """

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        *,
        images: Mapping[str, str] | None = None,
    ) -> None:
        """Create the stacks.

        Args:
            app: The app.
            settings: The environment's settings.
            images: The digests of images in the environment's repository, by target; without them
                each image is built.
        """
        images = images or {}
        self.repository = RepositoryStack(app, settings) if has_repository_stack(settings) else None
        self.artifact = ArtifactStack(app, settings) if has_bucket_stack(settings) else None
        self.index: IndexStack | None = None
        if settings.index:
            self.index = IndexStack(app, settings, settings.index, images=images)
        index = self.index.index if self.index else None
        self.endpoint = EndpointStack(app, settings, vector_index=index, images=images)
        self.front: FrontStack | None = None
        if settings.front:
            self.front = FrontStack(app, settings, settings.front, endpoint=self.endpoint.endpoint)
        self.batch: BatchStack | None = None
        if settings.batch:
            self.batch = BatchStack(app, settings, settings.batch, images=images)
        self.server: ServerStack | None = None
        if settings.server:
            self.server = ServerStack(
                app, settings, settings.server, vector_index=index, images=images
            )
        self.observability = ObservabilityStack(
            app,
            settings,
            endpoint=self.endpoint.endpoint,
            batch=self.batch.batch if self.batch else None,
            loading=self.index.loading if self.index else None,
            service=self.server.service if self.server else None,
            front=self.front.front if self.front else None,
        )
        for stack in filter(None, (self.index, self.endpoint, self.batch, self.server)):
            if self.repository:
                stack.add_stack_dependency(
                    self.repository, "the image is published into the repository"
                )
        if self.artifact:
            self.endpoint.add_stack_dependency(
                self.artifact, "the artifact is published into the bucket"
            )
