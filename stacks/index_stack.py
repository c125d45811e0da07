"""The stack of the vector index and its loads, with an image of the environment's repository."""

import aws_cdk as cdk

from embedding_kit.index_loading import IndexLoading
from embedding_kit.ingestion import Ingestion
from embedding_kit.settings import IngestSettings, LoadSource, Model, VectorIndexSettings
from embedding_kit.vector_index import VectorIndex
from stacks.environment_stack import EnvironmentStack, Foundation
from stacks.names import index_stack_name
from stacks.promoted import image_synthesizer


class IndexStack(EnvironmentStack):
    """The vector index of one environment.

    Attributes:
        index: The index, for the endpoint that searches it.
        loading: The loads; None if the settings name no folder with the output of batch jobs.
        ingestion: What keeps the index equal to documents; None without documents.
    """

    def __init__(
        self,
        app: cdk.App,
        foundation: Foundation,
        index: VectorIndexSettings,
        *,
        model: Model,
        source: LoadSource | None,
        ingest: IngestSettings | None,
    ) -> None:
        """Create the stack.

        Args:
            app: The app.
            foundation: What it shares with the environment's other stacks.
            index: The index.
            model: The model of its vectors.
            source: The folder that loads read; None for no loads.
            ingest: The documents that the index is kept equal to; None for none.
        """
        super().__init__(
            app,
            index_stack_name(foundation.name),
            foundation,
            title="index",
            synthesizer=image_synthesizer(foundation.repository, foundation.images),
        )
        self.index = VectorIndex(self, "Index", model=model, settings=index, key=self.key)
        cdk.CfnOutput(self, "IndexArn", value=self.index.index_arn)
        self.loading: IndexLoading | None = None
        # Once: the VPC is a construct of the stack.
        hosting = self.hosting() if source or ingest else None
        if source:
            self.loading = IndexLoading(
                self,
                "Loading",
                model=model,
                index=self.index,
                source=source,
                settings=index,
                name=foundation.name,
                hosting=hosting,
            )
            machine = self.loading.state_machine
            cdk.CfnOutput(self, "LoadStateMachineArn", value=machine.state_machine_arn)
        self.ingestion: Ingestion | None = None
        if ingest:
            self.ingestion = Ingestion(
                self,
                "Ingestion",
                model=model,
                index=self.index,
                settings=ingest,
                index_settings=index,
                name=foundation.name,
                hosting=hosting,
            )
            machine = self.ingestion.state_machine
            cdk.CfnOutput(self, "IngestStateMachineArn", value=machine.state_machine_arn)
            cdk.CfnOutput(self, "DeadLettersUrl", value=self.ingestion.dead_letters.queue_url)
            # For the doctor and `embed ingest status`, which do not have the environment's file.
            cdk.CfnOutput(self, "EventsUrl", value=self.ingestion.queue.queue_url)
            cdk.CfnOutput(self, "DocumentsUrl", value=ingest.source)
            function = self.ingestion.function
            cdk.CfnOutput(self, "IngestFunctionName", value=function.function_name)
