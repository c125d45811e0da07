"""The stack of batch jobs. Its image is published into the environment's own repository."""

import aws_cdk as cdk

from embedding_kit.batch import EmbeddingBatch
from embedding_kit.settings import BatchSettings, Model
from stacks.environment_stack import EnvironmentStack, Foundation
from stacks.names import batch_stack_name
from stacks.promoted import image_synthesizer


class BatchStack(EnvironmentStack):
    """The batch jobs of one environment.

    Attributes:
        batch: The batch, for the stack that monitors it.
    """

    def __init__(
        self, app: cdk.App, foundation: Foundation, batch: BatchSettings, *, model: Model
    ) -> None:
        """Create the stack."""
        super().__init__(
            app,
            batch_stack_name(foundation.name),
            foundation,
            title="batch",
            synthesizer=image_synthesizer(foundation.repository, foundation.images, model),
        )
        self.batch = EmbeddingBatch(
            self,
            "Batch",
            model=model,
            settings=batch,
            name=foundation.name,
            hosting=self.hosting(),
        )
        cdk.CfnOutput(self, "StateMachineArn", value=self.batch.state_machine.state_machine_arn)
