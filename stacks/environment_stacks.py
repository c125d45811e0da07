"""The stacks of one environment, with their dependencies: the small ones are here."""

from collections.abc import Mapping

import aws_cdk as cdk

from embedding_kit.artifact_bucket import ArtifactBucket
from embedding_kit.batch import EmbeddingBatch
from embedding_kit.endpoint_interface import IEmbeddingEndpoint
from embedding_kit.environment import EnvironmentSettings
from embedding_kit.fargate_service import EmbeddingService
from embedding_kit.front.rest_api import EmbeddingRestApi
from embedding_kit.monitoring.parts import Part
from embedding_kit.repository import EmbeddingRepository
from embedding_kit.settings import ApiGatewayFront, BatchSettings, ServerSettings
from stacks.endpoint_stack import EndpointStack
from stacks.environment_stack import EnvironmentStack
from stacks.index_stack import IndexStack
from stacks.names import (
    artifact_bucket,
    artifact_stack_name,
    batch_stack_name,
    front_stack_name,
    has_bucket_stack,
    has_repository_stack,
    image_repository,
    repository_stack_name,
    server_stack_name,
)
from stacks.observability_stack import STANDBY, ObservabilityStack
from stacks.promoted import image_synthesizer


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
            parts: dict[str, Part | None] = {
                "BatchAlarms": self.batch.batch if self.batch else None,
                "LoadAlarm": index.loading if index else None,
                "DocumentAlarms": index.ingestion if index else None,
                STANDBY: index.standby_ingestion if index else None,
                "WatchAlarms": index.watch if index else None,
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


class RepositoryStack(EnvironmentStack):
    """The repository of one environment's images."""

    def __init__(self, app: cdk.App, settings: EnvironmentSettings) -> None:
        name = repository_stack_name(settings.name)
        super().__init__(app, name, settings, title="image repository")
        made = EmbeddingRepository(
            self,
            "Repository",
            name=image_repository(settings),
            settings=settings.repository,
            removal_policy=cdk.RemovalPolicy[settings.removal_policy.upper()],
            key=self.key,
        )
        cdk.CfnOutput(self, "RepositoryUri", value=made.repository.repository_uri)


class ArtifactStack(EnvironmentStack):
    """The bucket of one environment's artifacts."""

    def __init__(self, app: cdk.App, settings: EnvironmentSettings) -> None:
        super().__init__(app, artifact_stack_name(settings.name), settings, title="artifacts")
        name = artifact_bucket(settings, account=settings.account, region=settings.region)
        made = ArtifactBucket(self, "Bucket", name=name, key=self.key)
        cdk.CfnOutput(self, "BucketName", value=made.bucket.bucket_name)


class BatchStack(EnvironmentStack):
    """The batch jobs of one environment, which the stack of monitoring reads."""

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        batch: BatchSettings,
        images: Mapping[str, str],
    ) -> None:
        name, synthesizer = batch_stack_name(settings.name), image_synthesizer(settings, images)
        super().__init__(app, name, settings, title="batch", synthesizer=synthesizer)
        self.batch = EmbeddingBatch(
            self,
            "Batch",
            model=settings.model,
            settings=batch,
            name=settings.name,
            hosting=self.hosting(),
        )
        cdk.CfnOutput(self, "StateMachineArn", value=self.batch.state_machine.state_machine_arn)


class ServerStack(EnvironmentStack):
    """The server of one environment, which the stack of monitoring reads."""

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
        if index and index.standby_index:
            # The tasks before a switch have the same role, and still answer for a time.
            index.standby_index.grant_query(self.service.service.task_definition.task_role)
        balancer = self.service.load_balancer
        cdk.CfnOutput(self, "Url", value=self.service.url)
        cdk.CfnOutput(self, "LoadBalancerName", value=balancer.load_balancer_dns_name)


class FrontStack(EnvironmentStack):
    """The REST API of one environment, which the stack of monitoring reads."""

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        front: ApiGatewayFront,
        endpoint: IEmbeddingEndpoint,
    ) -> None:
        name = front_stack_name(settings.name)
        super().__init__(app, name, settings, title="API in front of the endpoint")
        self.front = EmbeddingRestApi(
            self, "Front", endpoint=endpoint, settings=front, tracing=self.tracing
        )
        cdk.CfnOutput(self, "Url", value=self.front.url)
        domain = self.front.domain
        if domain:
            cdk.CfnOutput(self, "DomainTarget", value=domain.domain_name_alias_domain_name)
            cdk.CfnOutput(self, "DomainHostedZone", value=domain.domain_name_alias_hosted_zone_id)
