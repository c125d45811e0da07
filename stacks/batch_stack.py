"""The stack of batch jobs. Its image is published into the environment's own repository."""

from collections.abc import Mapping

import aws_cdk as cdk

from embedding_kit.jobs import EmbeddingBatch
from embedding_kit.settings import BatchSettings
from stacks.environment import EnvironmentSettings
from stacks.environment_stack import EnvironmentStack
from stacks.names import batch_stack_name
from stacks.promoted import image_synthesizer


class BatchStack(EnvironmentStack):
    """The batch jobs of one environment.

    Attributes:
        batch: The batch, for the stack that monitors it.
    """

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
