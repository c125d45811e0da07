"""The stack of the endpoint, whose image is published into the environment's own repository.

An artifact in S3 is published into the environment's own bucket, with all files of the stack.
"""

from collections.abc import Mapping

from aws_cdk import CfnOutput, DefaultStackSynthesizer, Stack
from aws_cdk import Environment as Where
from aws_cdk import aws_logs as logs
from constructs import Construct

from embedding_kit.bootstrap import bootstrap_value
from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.environment import Environment
from embedding_kit.network import network_properties
from embedding_kit.settings import artifact_in_s3
from embedding_kit.vector_index import IVectorIndex
from stacks.existing import artifact_bucket
from stacks.owned import own_key, tracing
from stacks.promoted_images import image_synthesizer
from stacks.promoted_zip import PromotedZip

__all__ = ["EndpointStack"]


class EndpointStack(Stack):
    """The endpoint of one environment.

    Attributes:
        endpoint: The endpoint, for the stacks that monitor it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        repository_name: str,
        vector_index: IVectorIndex | None,
        images: Mapping[str, str] | None = None,
        env: Where,
    ) -> None:
        """Create the stack."""
        synthesizer = _synthesizer(scope, environment, repository_name, images)
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: endpoint",
            termination_protection=environment.protect,
            synthesizer=synthesizer,
        )
        if isinstance(synthesizer, PromotedZip):
            synthesizer.use_in(self)
        existing = environment.existing
        self.endpoint = EmbeddingEndpoint(
            self,
            "Endpoint",
            model=environment.model,
            function=environment.function,
            cold_start=environment.cold_start,
            release=environment.release,
            experiment=environment.experiment,
            callers=environment.callers,
            cors=environment.cors,
            alarms=environment.alarms,
            name=environment.name,
            vector_index=vector_index,
            environment_encryption=own_key(self, environment),
            tracing=tracing(environment),
            role=existing.role if existing else None,
            log_group=logs.LogGroup.from_log_group_name(self, "LogGroup", existing.log_group)
            if existing and existing.log_group
            else None,
            **network_properties(self, environment.network),
        )
        CfnOutput(self, "Url", value=self.endpoint.url)
        CfnOutput(self, "AliasArn", value=self.endpoint.alias_arn)
        if self.endpoint.caller_role:
            CfnOutput(self, "CallerRoleArn", value=self.endpoint.caller_role.role_arn)
        if self.endpoint.candidate and self.endpoint.candidate_url:
            CfnOutput(self, "CandidateUrl", value=self.endpoint.candidate_url)
            CfnOutput(self, "CandidateAliasArn", value=self.endpoint.candidate.function_arn)


def _synthesizer(
    scope: Construct,
    environment: Environment,
    repository_name: str,
    images: Mapping[str, str] | None,
) -> DefaultStackSynthesizer | None:
    if environment.function.package == "image":
        return image_synthesizer(repository_name, images)
    bucket = None
    if artifact_in_s3(environment.model, environment.function):
        bucket = artifact_bucket(
            environment, account=environment.account, region=environment.region
        )
    if images:
        default = DefaultStackSynthesizer.DEFAULT_FILE_ASSETS_BUCKET_NAME
        address = bootstrap_value(scope, bucket or default)
        return PromotedZip(address, images, file_assets_bucket_name=bucket)
    return DefaultStackSynthesizer(file_assets_bucket_name=bucket) if bucket else None
