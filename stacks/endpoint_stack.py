"""The stack of the endpoint, whose image is published into the environment's own repository."""

from aws_cdk import CfnOutput, DefaultStackSynthesizer, Stack
from aws_cdk import Environment as Where
from constructs import Construct

from embedding_kit.endpoint import EmbeddingEndpoint
from embedding_kit.environment import Environment
from embedding_kit.vector_index import IVectorIndex

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
        env: Where,
    ) -> None:
        """Create the stack."""
        of_images = DefaultStackSynthesizer(image_assets_repository_name=repository_name)
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: endpoint",
            termination_protection=environment.protect,
            synthesizer=of_images if environment.function.package == "image" else None,
        )
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
        )
        CfnOutput(self, "Url", value=self.endpoint.url)
        CfnOutput(self, "AliasArn", value=self.endpoint.alias_arn)
        if self.endpoint.candidate and self.endpoint.candidate_url:
            CfnOutput(self, "CandidateUrl", value=self.endpoint.candidate_url)
            CfnOutput(self, "CandidateAliasArn", value=self.endpoint.candidate.function_arn)
