"""The stack of the vector index and its loads, with an image of the environment's repository."""

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3

from embedding_kit.ingestion import Ingestion, document_bucket
from embedding_kit.jobs import IndexLoading
from embedding_kit.settings import IngestSettings, ModelSettings, VectorIndexSettings, load_source
from embedding_kit.vector_index import IVectorIndex, VectorIndex
from stacks.environment import EnvironmentSettings
from stacks.environment_stack import EnvironmentStack
from stacks.names import index_stack_name
from stacks.promoted import image_synthesizer


class IndexStack(EnvironmentStack):
    """The vector index of one environment, and that of its standby model.

    What the settings do not ask for is None: loads without a folder of batch jobs, what keeps an
    index equal to documents, and all of the standby model.
    """

    def __init__(
        self,
        app: cdk.App,
        settings: EnvironmentSettings,
        index: VectorIndexSettings,
        images: Mapping[str, str],
    ) -> None:
        name, synthesizer = index_stack_name(settings.name), image_synthesizer(settings, images)
        super().__init__(app, name, settings, title="index", synthesizer=synthesizer)
        model, ingest = settings.model, settings.ingest
        source = load_source(index, settings.batch)
        self.index = VectorIndex(self, "Index", model=model, settings=index, key=self.key)
        cdk.CfnOutput(self, "IndexArn", value=self.index.index_arn)
        self.loading: IndexLoading | None = None
        # Once: the VPC is a construct of the stack.
        self._hosting = self.hosting() if source or ingest else None
        if source:
            self.loading = IndexLoading(
                self,
                "Loading",
                model=model,
                index=self.index,
                source=source,
                settings=index,
                name=settings.name,
                hosting=self._hosting,
            )
            machine = self.loading.state_machine
            cdk.CfnOutput(self, "LoadStateMachineArn", value=machine.state_machine_arn)
        self.ingestion: Ingestion | None = None
        self.standby_index: IVectorIndex | None = None
        self.standby_ingestion: Ingestion | None = None
        self._bucket: s3.Bucket | None = None
        if ingest:
            if not ingest.source:
                self._bucket = document_bucket(self, "Documents", key=self.key)
            self.ingestion = self._ingest(ingest, model, self.index)
            cdk.CfnOutput(self, "DocumentsUrl", value=self.ingestion.url)
        if settings.standby:
            self.standby_index = self.index.add_standby(settings.standby)
            cdk.CfnOutput(self, "StandbyIndexArn", value=self.standby_index.index_arn)
            if ingest:
                self.standby_ingestion = self._ingest(
                    ingest, settings.standby, self.standby_index, role="Standby"
                )

    def _ingest(
        self, ingest: IngestSettings, model: ModelSettings, index: IVectorIndex, *, role: str = ""
    ) -> Ingestion:
        """Keep an index equal to the documents; `role` begins the names of the outputs alone.

        So a switch, which exchanges the two models, changes no resource.
        """
        ingestion = Ingestion(
            self,
            self.index.id_of(model).replace("Index", "Ingestion"),
            model=model,
            index=index,
            settings=ingest,
            index_settings=self.index.settings,
            bucket=self._bucket,
            name=self.settings.name,
            hosting=self._hosting,
        )
        # For the doctor and `embed ingest status`, which do not have the environment's file.
        outputs = {
            "IngestStateMachineArn": ingestion.state_machine.state_machine_arn,
            "DeadLettersUrl": ingestion.dead_letters.queue_url,
            "EventsUrl": ingestion.queue.queue_url,
            "IngestFunctionName": ingestion.function.function_name,
        }
        for name, value in outputs.items():
            cdk.CfnOutput(self, f"{role}{name}", value=value)
        return ingestion
