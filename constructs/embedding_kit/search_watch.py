"""A function that compares an index with its documents each day."""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as scheduler_targets
from constructs import Construct

from embedding_kit.distributed_map import job_function
from embedding_kit.findings import acknowledge, acknowledge_wildcard
from embedding_kit.function import function_role
from embedding_kit.hosting import Hosting, make_log_group
from embedding_kit.ingestion import Ingestion
from embedding_kit.permissions import WRITE_KEY, allow, allow_keys, allow_listing, objects
from embedding_kit.settings import Model, WatchSettings
from embedding_kit.settings.ingest import SAMPLE
from embedding_kit.vector_index import IVectorIndex

HANDLER = "jobs.watch.handler.handler"
#: 4:00 UTC, an hour after the nightly comparison of all documents.
_HOUR = "4"
#: Below the folder of records: `*` is the index.
_LISTS, _REPORTS = "*/chunks/*", "*/watch/*"


class SearchWatch(Construct):
    """Says each day whether search still works, by samples of the index and of its documents.

    Args:
        model: The model of the index.
        index: The index, which the function only reads.
        ingestion: What keeps the index equal to the documents.
        settings: The questions; none by default.
        hosting: VPC, key and tracing of the function. Default: none of them.

    Attributes:
        function: The function; an event `{"step": "watch"}` runs it.
        log_group: The function's log group.
        namespace: The namespace of the function's own metrics, that of the ingestion.
        settings: The settings.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: Model,
        index: IVectorIndex,
        ingestion: Ingestion,
        settings: WatchSettings | None = None,
        hosting: Hosting | None = None,
    ) -> None:
        super().__init__(scope, id)
        self.settings = settings or WatchSettings()
        self.namespace = ingestion.namespace
        self.log_group = make_log_group(self, "Logs")
        role = function_role(self, self.log_group)
        self._grant(role, ingestion, index)
        self.function = job_function(
            self,
            model=model,
            handler=HANDLER,
            description=f"Watch of the search by {model.name}",
            memory_mb=ingestion.memory_mb,
            name=ingestion.name,
            role=role,
            log_group=self.log_group,
            hosting=hosting or Hosting(),
        )
        self.function.add_environment("EMBEDDING_INGEST", ingestion.variable)
        questions = self.settings.questions
        watch = {
            "sample": SAMPLE,
            "questions": f"s3://{ingestion.location.bucket}/{questions}" if questions else None,
        }
        self.function.add_environment("EMBEDDING_WATCH", Stack.of(self).to_json_string(watch))
        # The next day's run repeats a run that failed, and the alarm tells of it.
        self.function.configure_async_invoke(retry_attempts=0)
        # The scheduler's target may invoke every version.
        versions = f"{self.function.function_arn}:*"
        acknowledge_wildcard(self, versions, reason="The CDK's target grants it.")
        reason = "An alarm tells of a run that fails."
        acknowledge(self, "Serverless-LambdaAsyncFailureDestination", reason=reason)
        starter = iam.Role(
            self, "Starter", assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com")
        )
        scheduler.Schedule(
            self,
            "Daily",
            description=f"Compares the index of {ingestion.name} with its documents",
            schedule=scheduler.ScheduleExpression.cron(hour=_HOUR, minute="0"),
            target=scheduler_targets.LambdaInvoke(
                self.function,
                input=scheduler.ScheduleTargetInput.from_object({"step": "watch"}),
                role=starter,
            ),
        )

    def _grant(self, role: iam.IRole, ingestion: Ingestion, index: IVectorIndex) -> None:
        """Let the function read documents, lists and the index, and write reports."""
        records, questions = ingestion.records, self.settings.questions
        documents, reports = objects(ingestion.location), objects(records, _REPORTS)
        reads = [documents, objects(records, _LISTS), reports]
        for each in reads:
            acknowledge_wildcard(self, each, reason="Any document is read.")
        if questions:
            reads.append(objects(records._replace(prefix=""), questions))
        allow(role, ["s3:GetObject"], reads, sid="ReadDocuments")
        if ingestion.tags:
            allow(role, ["s3:GetObjectTagging"], [documents], sid="ReadTags")
        allow(role, ["s3:PutObject"], [reports], sid="WriteReports")
        # Of the whole bucket: only then S3 answers that a document does not exist, and not 403.
        allow_listing(role, "ListDocuments", records._replace(prefix=""))
        allow_keys(role, "UseKeys", WRITE_KEY, ingestion.keys, records)
        index.grant_read(role)
