"""The stack of the endpoint; its image is published into the environment's repository.

An artifact in S3 is published into the environment's own bucket, with all files of the stack.
"""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_logs as logs
from aws_cdk import aws_ssm as ssm

from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.function import EmbeddingFunction
from embedding_kit.hosting import Hosting
from embedding_kit.settings import FunctionSettings, ModelSettings, artifact_in_s3
from embedding_kit.storage import bootstrap_value
from embedding_kit.vector_index import IVectorIndex
from stacks.environment import EnvironmentSettings
from stacks.environment_stack import EnvironmentStack
from stacks.index_stack import IndexStack
from stacks.names import artifact_bucket, endpoint_stack_name
from stacks.promoted import PromotedZip, image_synthesizer


class EndpointStack(EnvironmentStack):
    """The endpoint of one environment, which other stacks call and monitor."""

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        images: Mapping[str, str],
        *,
        index: IndexStack | None,
    ) -> None:
        """Create the stack; the function searches the index of another one."""
        name, synthesizer = endpoint_stack_name(settings.name), _synthesizer(app, settings, images)
        super().__init__(app, name, settings, title="endpoint", synthesizer=synthesizer)
        if isinstance(synthesizer, PromotedZip):
            # The stack uses a bound copy of a synthesizer that Python created, and jsii calls the
            # methods of the original. They share the list of assets.
            synthesizer.bind(self)
        # Once: the VPC is a construct of the stack.
        hosting, existing = self.hosting(), settings.existing
        log_group = existing.log_group if existing else None
        self.endpoint = EmbeddingEndpoint(
            self,
            "Endpoint",
            model=settings.model,
            function=settings.function,
            cold_start=settings.cold_start,
            release=settings.release,
            experiment=settings.experiment,
            alarms=settings.alarms,
            name=settings.name,
            hosting=hosting,
            role=existing.role if existing else None,
            log_group=logs.LogGroup.from_log_group_name(self, "LogGroup", log_group)
            if log_group
            else None,
        )
        self.endpoint.add_callers(settings.callers)
        if settings.cors:
            self.endpoint.add_cors(settings.cors)
        if index:
            self.endpoint.add_vector_index(index.index)
        if settings.standby and index and index.standby_index:
            # The standby model becomes the one that answers once its index is complete.
            self.endpoint.check.allow_standby(index.index, index.standby_index)
            # All versions have one role, so the version before a switch needs its index after it.
            index.standby_index.grant_query(self.endpoint.function)
            self._make_standby(settings.standby, settings.function, index.standby_index, hosting)
        if not log_group:
            self.keep_log(self.endpoint.log_group)
        self.keep_log(self.endpoint.check.log_group)
        self._make_outputs()
        # Other stacks and programs read them to call, without a reference to this stack.
        values = {
            "url": self.endpoint.url,
            "alias-arn": self.endpoint.alias_arn,
            "vector-space": self.endpoint.check.vector_space,
        }
        for key, value in values.items():
            ssm.StringParameter(
                self,
                f"Parameter-{key}",
                parameter_name=f"/embedding-kit/{self.endpoint.name}/{key}",
                string_value=value,
            )

    def _make_standby(
        self,
        model: ModelSettings,
        function: FunctionSettings,
        index: IVectorIndex,
        hosting: Hosting,
    ) -> None:
        """Serve the standby model, to compare its answers with those of the endpoint.

        It has neither alias nor URL: whoever may invoke the function calls its version.
        """
        standby = EmbeddingFunction(
            self,
            "Standby",
            model=model,
            settings=function.model_copy(update={"reserved_concurrency": None}),
            name=self.settings.name,
            hosting=hosting,
            keeps_versions=False,
        )
        standby.add_vector_index(index)
        arn = standby.function.current_version.function_arn
        cdk.CfnOutput(self, "StandbyFunctionArn", value=arn)

    def _make_outputs(self) -> None:
        endpoint = self.endpoint
        cdk.CfnOutput(self, "Url", value=endpoint.url)
        cdk.CfnOutput(self, "AliasArn", value=endpoint.alias_arn)
        if endpoint.caller_role:
            cdk.CfnOutput(self, "CallerRoleArn", value=endpoint.caller_role.role_arn)
        if endpoint.candidate and endpoint.candidate_url:
            cdk.CfnOutput(self, "CandidateUrl", value=endpoint.candidate_url)
            cdk.CfnOutput(self, "CandidateAliasArn", value=endpoint.candidate.function_arn)


def _synthesizer(
    app: cdk.App, settings: EnvironmentSettings, images: Mapping[str, str]
) -> cdk.DefaultStackSynthesizer | None:
    if settings.function.package == "image":
        return image_synthesizer(settings, images)
    bucket = None
    if artifact_in_s3(settings.model, settings.function):
        bucket = artifact_bucket(settings, account=settings.account, region=settings.region)
    if images:
        default = cdk.DefaultStackSynthesizer.DEFAULT_FILE_ASSETS_BUCKET_NAME
        address = bootstrap_value(app, bucket or default)
        return PromotedZip(address, images, file_assets_bucket_name=bucket)
    return cdk.DefaultStackSynthesizer(file_assets_bucket_name=bucket) if bucket else None
