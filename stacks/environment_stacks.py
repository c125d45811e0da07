"""The stacks of one environment, with their names, dependencies and tags."""

from collections.abc import Mapping

import aws_cdk as cdk

from embedding_kit.environment import COST_TAG, Environment
from stacks.artifact_stack import ArtifactStack
from stacks.batch_stack import BatchStack
from stacks.endpoint_stack import EndpointStack
from stacks.existing import has_bucket_stack, has_repository_stack, image_repository
from stacks.front_stack import FrontStack
from stacks.index_stack import IndexStack
from stacks.names import (
    artifact_stack_name,
    batch_stack_name,
    endpoint_stack_name,
    front_stack_name,
    index_stack_name,
    observability_stack_name,
    repository_stack_name,
    server_stack_name,
)
from stacks.observability_stack import ObservabilityStack
from stacks.owned import prescribe, with_own_key
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
        self, app: cdk.App, environment: Environment, *, images: Mapping[str, str] | None = None
    ) -> None:
        """Create the stacks.

        Args:
            app: The app.
            environment: The environment's settings.
            images: The digests of images in the environment's repository, by target; without them
                each image is built.
        """
        environment = with_own_key(environment)
        where = cdk.Environment(account=environment.account, region=environment.region)
        self.repository: RepositoryStack | None = None
        repository = image_repository(environment)
        if has_repository_stack(environment):
            self.repository = RepositoryStack(
                app, repository_stack_name(environment.name), environment=environment, env=where
            )
        self.artifact: ArtifactStack | None = None
        if has_bucket_stack(environment):
            self.artifact = ArtifactStack(
                app, artifact_stack_name(environment.name), environment=environment, env=where
            )
        self.index: IndexStack | None = None
        if environment.index:
            self.index = IndexStack(
                app,
                index_stack_name(environment.name),
                environment=environment,
                settings=environment.index,
                repository_name=repository,
                images=images,
                env=where,
            )
        self.endpoint = EndpointStack(
            app,
            endpoint_stack_name(environment.name),
            environment=environment,
            repository_name=repository,
            images=images,
            vector_index=self.index.index if self.index else None,
            env=where,
        )
        self.front: FrontStack | None = None
        if environment.front:
            self.front = FrontStack(
                app,
                front_stack_name(environment.name),
                environment=environment,
                settings=environment.front,
                endpoint=self.endpoint.endpoint,
                env=where,
            )
        self.batch: BatchStack | None = None
        if environment.batch:
            self.batch = BatchStack(
                app,
                batch_stack_name(environment.name),
                environment=environment,
                settings=environment.batch,
                repository_name=repository,
                images=images,
                env=where,
            )
        self.server: ServerStack | None = None
        if environment.server:
            self.server = ServerStack(
                app,
                server_stack_name(environment.name),
                environment=environment,
                settings=environment.server,
                repository_name=repository,
                images=images,
                vector_index=self.index.index if self.index else None,
                env=where,
            )
        self.observability = ObservabilityStack(
            app,
            observability_stack_name(environment.name),
            environment=environment,
            endpoint=self.endpoint.endpoint,
            batch=self.batch.batch if self.batch else None,
            loading=self.index.loading if self.index else None,
            service=self.server.service if self.server else None,
            front=self.front.front if self.front else None,
            cost_tag=(COST_TAG, environment.name),
            env=where,
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
        tags = {**environment.tags, COST_TAG: environment.name}
        if "project" not in map(str.lower, tags):
            tags["Project"] = "embedding-kit"
        # Not on the app, because another environment in the same app has other tags.
        stacks = [
            self.artifact,
            self.repository,
            self.index,
            self.endpoint,
            self.front,
            self.batch,
            self.server,
            self.observability,
        ]
        for stack in filter(None, stacks):
            prescribe(stack, environment)
            for key, value in tags.items():
                cdk.Tags.of(stack).add(key, value)
