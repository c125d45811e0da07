"""The stacks of one environment, with their dependencies."""

from collections.abc import Mapping

import aws_cdk as cdk

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.settings import load_source
from stacks.artifact_stack import ArtifactStack
from stacks.batch_stack import BatchStack
from stacks.endpoint_stack import EndpointStack
from stacks.environment_stack import Foundation
from stacks.front_stack import FrontStack
from stacks.index_stack import IndexStack
from stacks.names import artifact_stack_name, repository_stack_name
from stacks.observability_stack import ObservabilityStack
from stacks.repository_stack import RepositoryStack
from stacks.server_stack import ServerStack


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
        observability: The stack of alarms, dashboard and budget; None for a branch.
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
        foundation = Foundation.of(settings, images or {})
        model = settings.model
        self.repository: RepositoryStack | None = None
        if repository_stack_name(settings.name) in foundation.stacks:
            self.repository = RepositoryStack(app, foundation, settings.repository)
        self.artifact: ArtifactStack | None = None
        if foundation.bucket and artifact_stack_name(settings.name) in foundation.stacks:
            self.artifact = ArtifactStack(app, foundation, foundation.bucket)
        self.index: IndexStack | None = None
        if settings.index:
            source = load_source(settings.index, settings.batch)
            self.index = IndexStack(
                app,
                foundation,
                settings.index,
                model=model,
                standby=settings.standby,
                source=source,
                ingest=settings.ingest,
                watch=settings.watch,
            )
        index = self.index.index if self.index else None
        standby_index = self.index.standby_index if self.index else None
        self.endpoint = EndpointStack(
            app, foundation, settings, vector_index=index, standby_index=standby_index
        )
        endpoint = self.endpoint.endpoint
        self.front: FrontStack | None = None
        if settings.front:
            self.front = FrontStack(app, foundation, settings.front, endpoint=endpoint)
        self.batch: BatchStack | None = None
        if settings.batch:
            self.batch = BatchStack(app, foundation, settings.batch, model=model)
        self.server: ServerStack | None = None
        if settings.server:
            self.server = ServerStack(
                app,
                foundation,
                settings.server,
                model=model,
                function=settings.function,
                vector_index=index,
                standby_index=standby_index,
            )
        self.observability: ObservabilityStack | None = None
        if settings.branch_of is None:
            self.observability = ObservabilityStack(
                app,
                foundation,
                settings,
                endpoint=endpoint,
                batch=self.batch.batch if self.batch else None,
                loading=self.index.loading if self.index else None,
                ingestion=self.index.ingestion if self.index else None,
                standby_ingestion=self.index.standby_ingestion if self.index else None,
                watch=self.index.watch if self.index else None,
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
