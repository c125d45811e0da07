"""The stack of the vector index and its loads, with an image of the environment's repository."""

from collections.abc import Mapping

import aws_cdk as cdk

from embedding_kit.environment import EnvironmentSettings
from embedding_kit.index_loading import IndexLoading
from embedding_kit.settings import VectorIndexSettings, load_source
from embedding_kit.vector_index import VectorIndex
from stacks.environment_stack import EnvironmentStack
from stacks.names import index_stack_name
from stacks.promoted import image_synthesizer

__all__ = ["IndexStack"]


class IndexStack(EnvironmentStack):
    """The vector index of one environment.

    Attributes:
        index: The index, for the endpoint that searches it.
        loading: The loads; None if the settings name no folder with the output of batch jobs.
    """

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        index: VectorIndexSettings,
        *,
        images: Mapping[str, str],
    ) -> None:
        """Create the stack."""
        super().__init__(
            app,
            index_stack_name(settings.name),
            settings,
            title="index",
            synthesizer=image_synthesizer(settings, images),
        )
        self.index = VectorIndex(self, "Index", model=settings.model, settings=index, key=self.key)
        cdk.CfnOutput(self, "IndexArn", value=self.index.index_arn)
        self.loading: IndexLoading | None = None
        source = load_source(index, settings.batch)
        if source:
            self.loading = IndexLoading(
                self,
                "Loading",
                model=settings.model,
                index=self.index,
                source=source,
                settings=index,
                name=settings.name,
                hosting=self.hosting(),
            )
            machine = self.loading.state_machine
            cdk.CfnOutput(self, "LoadStateMachineArn", value=machine.state_machine_arn)
