"""The stack of the vector index and its loads, whose image is in the environment's repository."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Where
from constructs import Construct

from embedding_kit.environment import Environment
from embedding_kit.index_loading import IndexLoading
from embedding_kit.network import network_properties
from embedding_kit.settings import VectorIndexSettings, load_source
from embedding_kit.vector_index import VectorIndex
from stacks.owned import own_key, tracing
from stacks.promoted_images import image_synthesizer

__all__ = ["IndexStack"]


class IndexStack(Stack):
    """The vector index of one environment.

    Attributes:
        index: The index, for the endpoint that searches it.
        loading: The loads; None if the settings name no folder with the output of batch jobs.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        settings: VectorIndexSettings,
        repository_name: str,
        images: Mapping[str, str] | None = None,
        env: Where,
    ) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: index",
            termination_protection=environment.protect,
            synthesizer=image_synthesizer(repository_name, images),
        )
        self.index = VectorIndex(self, "Index", model=environment.model, settings=settings)
        CfnOutput(self, "IndexArn", value=self.index.index_arn)
        self.loading: IndexLoading | None = None
        source = load_source(settings, environment.batch)
        if source:
            self.loading = IndexLoading(
                self,
                "Loading",
                model=environment.model,
                index=self.index,
                source=source,
                settings=settings,
                name=environment.name,
                **network_properties(self, environment.network),
                environment_encryption=own_key(self, environment),
                tracing=tracing(environment),
            )
            machine = self.loading.state_machine
            CfnOutput(self, "LoadStateMachineArn", value=machine.state_machine_arn)
