"""The stack of batch jobs. Its image is published into the environment's own repository."""

from collections.abc import Mapping

from aws_cdk import CfnOutput, Stack
from aws_cdk import Environment as Where
from constructs import Construct

from embedding_kit.batch import EmbeddingBatch
from embedding_kit.environment import Environment
from embedding_kit.network import network_properties
from embedding_kit.settings import BatchSettings
from stacks.owned import own_key, tracing
from stacks.promoted_images import image_synthesizer

__all__ = ["BatchStack"]


class BatchStack(Stack):
    """The batch jobs of one environment.

    Attributes:
        batch: The batch, for the stack that monitors it.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        environment: Environment,
        settings: BatchSettings,
        repository_name: str,
        images: Mapping[str, str] | None = None,
        env: Where,
    ) -> None:
        """Create the stack."""
        super().__init__(
            scope,
            id,
            env=env,
            description=f"Embedding Kit, {environment.name}: batch",
            termination_protection=environment.protect,
            synthesizer=image_synthesizer(repository_name, images),
        )
        self.batch = EmbeddingBatch(
            self,
            "Batch",
            model=environment.model,
            settings=settings,
            name=environment.name,
            **network_properties(self, environment.network),
            environment_encryption=own_key(self, environment),
            tracing=tracing(environment),
        )
        CfnOutput(self, "StateMachineArn", value=self.batch.state_machine.state_machine_arn)
