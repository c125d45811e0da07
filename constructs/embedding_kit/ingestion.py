"""Documents of S3 in an index: events, a queue, a function, and a reconciliation each night."""

from aws_cdk import Aws, Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as events_targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_scheduler_targets as scheduler_targets
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from embedding_kit.distributed_map import DistributedJobs, MapProgram
from embedding_kit.findings import acknowledge, acknowledge_wildcard
from embedding_kit.hosting import Hosting
from embedding_kit.key_statements import publisher_statement
from embedding_kit.permissions import WRITE_KEY, allow, allow_keys, allow_listing, objects
from embedding_kit.programs import contract
from embedding_kit.settings import IngestSettings, ModelSettings, VectorIndexSettings
from embedding_kit.settings.base import rule_error
from embedding_kit.settings.ingest import RECORDS, check_chunks
from embedding_kit.settings.locations import Location
from embedding_kit.storage import private_bucket
from embedding_kit.vector_index import IVectorIndex

_PROGRAM = MapProgram(
    job="ingest",
    label="Groups",
    task="Update",
    comment="Compares all documents with the index, and repairs what differs",
)
#: Runs at a time, of messages and of the reconciliation each.
_CONCURRENCY = 10
#: One vCPU, and besides the model what the text of a PDF may take.
_MEMORY_MB = 1769
_DOCUMENT_MB = 1024
#: Lambda takes no queue that gives a message again while the function may still run.
_VISIBLE_AGAIN = Duration.minutes(15)
_ATTEMPTS = 5
#: 3:00 UTC.
_HOUR = "3"


class Ingestion(DistributedJobs):
    """Keeps an index equal to the documents of a folder in S3.

    An execution of the state machine compares all documents with the index; the first one loads
    what is there already.

    Args:
        model: The model of the index.
        index: The index; no one else should write to it.
        settings: The documents and their chunks.
        index_settings: The index's metadata keys, which documents may have values of.
        bucket: The bucket of the documents, if the settings name none; it must send its events to
            EventBridge.
        name: As of `EmbeddingBatch`.
        hosting: As of `EmbeddingBatch`.

    Attributes:
        queue: The events that wait.
        dead_letters: Documents that cannot be read, with the reasons, and events that fail.
        url: The folder of the documents, `s3://BUCKET/PREFIX`.
        settings: The settings. For the other attributes, see `DistributedJobs`.

    Raises:
        ValueError: There is no folder and no bucket, or both are given.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        model: ModelSettings,
        index: IVectorIndex,
        settings: IngestSettings,
        index_settings: VectorIndexSettings | None = None,
        bucket: s3.IBucket | None = None,
        name: str | None = None,
        hosting: Hosting | None = None,
    ) -> None:
        check_chunks(settings, model)
        hosting = hosting or Hosting()
        location, keys = settings.location, hosting.existing_keys
        self.settings = settings
        if (location is None) == (bucket is None):
            raise rule_error(
                "documents are in one place",
                found="bucket and settings.source" if bucket else "neither",
                allowed="bucket or settings.source",
            )
        if bucket:
            location = Location(bucket.bucket_name, "")
            keys = [bucket.encryption_key.key_arn] if bucket.encryption_key else []
        assert location  # noqa: S101 - for mypy
        self._documents, self._index = location, index
        self.url = f"s3://{location.bucket}/{location.prefix}"
        super().__init__(
            scope,
            id,
            program=_PROGRAM,
            model=model,
            title="Documents embedded",
            memory_mb=max(_MEMORY_MB, (model.needed_memory_mb or 0) + _DOCUMENT_MB),
            location=Location(location.bucket, RECORDS),
            keys=keys,
            defaults={},
            max_concurrency=_CONCURRENCY,
            name=name,
            hosting=hosting,
        )
        key = hosting.environment_encryption
        if key:
            self._use_key(key)
        self.dead_letters = self._make_queue("DeadLetters", key)
        self.queue = self._make_queue(
            "Events",
            key,
            visibility_timeout=_VISIBLE_AGAIN,
            dead_letter_queue=sqs.DeadLetterQueue(
                max_receive_count=_ATTEMPTS, queue=self.dead_letters
            ),
        )
        self.dead_letters.grant_send_messages(self.function)
        variable = Stack.of(self).to_json_string(
            {
                "source": self.url,
                "records": f"s3://{location.bucket}/{RECORDS}",
                "index": index.index_arn,
                "dead_letters": self.dead_letters.queue_url,
                "chunk_tokens": settings.chunk_tokens,
                "overlap_tokens": settings.overlap_tokens,
                "metadata": list(index_settings.metadata if index_settings else ()),
                "tags": settings.tags,
                **(
                    {"questions": f"s3://{location.bucket}/{settings.questions}"}
                    if settings.questions
                    else {}
                ),
            }
        )
        self.function.add_environment(contract().variables["ingest"], variable)
        self.queue.grant_consume_messages(self.function)
        mapping = lambda_.EventSourceMapping(
            self,
            "Messages",
            target=self.function,
            event_source_arn=self.queue.queue_arn,
            max_concurrency=_CONCURRENCY,
            report_batch_item_failures=True,
        )
        reason = "The queue has one for dead letters; Lambda takes another only for streams."
        acknowledge(mapping, "Serverless-LambdaEventSourceMappingDestination", reason=reason)
        reason = "It has the dead letters itself."
        acknowledge(self.dead_letters, "Serverless-SQSRedrivePolicy", reason=reason)
        tag_events = ["Object Tags Added", "Object Tags Deleted"] if settings.tags else []
        prefix = location.prefix
        named = {"prefix": prefix} if prefix else {"anything-but": {"prefix": RECORDS}}
        events.Rule(
            self,
            "Changes",
            description=f"Changes of the documents in {self.url}",
            event_pattern=events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Created", "Object Deleted", *tag_events],
                detail={"bucket": {"name": [location.bucket]}, "object": {"key": [named]}},
            ),
            targets=[events_targets.SqsQueue(self.queue, dead_letter_queue=self.dead_letters)],
        )
        scheduler.Schedule(
            self,
            "Nightly",
            description=f"Compares the documents in {self.url} with the index",
            schedule=scheduler.ScheduleExpression.cron(hour=_HOUR, minute="0"),
            target=scheduler_targets.StepFunctionsStartExecution(self.state_machine),
        )

    def _grant(self, role: iam.IRole) -> None:
        documents, records = objects(self._documents), objects(self._location)
        allow(role, ["s3:GetObject"], [documents], sid="ReadDocuments")
        if self.settings.tags:
            allow(role, ["s3:GetObjectTagging"], [documents], sid="ReadTags")
        allow(role, ["s3:GetObject", "s3:PutObject"], [records], sid="WriteRecords")
        bucket = self._location._replace(prefix="")
        # Of the whole bucket: only then S3 answers that a document does not exist, and not 403.
        allow_listing(role, "ListDocuments", bucket)
        allow_keys(role, "UseKeys", WRITE_KEY, self.keys, self._location)
        self._index.grant_load(role)
        self._index.grant_edit(role)
        if self.settings.questions:
            questions = objects(bucket, self.settings.questions)
            allow(role, ["s3:GetObject"], [questions], sid="ReadQuestions")
            self._index.grant_query(role)
        acknowledge_wildcard(self, documents, reason="Any document is read.")
        acknowledge_wildcard(self, records, reason="A document's list is named by a hash.")

    def _make_queue(self, id: str, key: kms.IKey | None, **properties: object) -> sqs.Queue:
        queue = sqs.Queue(
            self,
            id,
            enforce_ssl=True,
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            retention_period=Duration.days(14),
            **properties,  # type: ignore[arg-type]
        )
        if key:
            resource = queue.node.default_child
            assert isinstance(resource, sqs.CfnQueue)  # noqa: S101 - for mypy
            # The property of `sqs.Queue` would let the function use the key for anything.
            resource.kms_master_key_id = key.key_arn
            resource.sqs_managed_sse_enabled = None
        return queue

    def _use_key(self, key: kms.IKey) -> None:
        """Let the rule and the function use the key of the queues, the function through SQS only.

        The policy of an imported key must have the rule's statement already.
        """
        statement = publisher_statement("events.amazonaws.com", account=Aws.ACCOUNT_ID)
        key.add_to_resource_policy(iam.PolicyStatement.from_json(statement))
        role = self.function.role
        assert role  # noqa: S101 - for mypy
        only = {"StringEquals": {"kms:ViaService": f"sqs.{Aws.REGION}.amazonaws.com"}}
        allow(role, WRITE_KEY, [key.key_arn], sid="UseKeyOfQueues", conditions=only)


def document_bucket(scope: Construct, id: str, *, key: kms.IKey | None = None) -> s3.Bucket:
    """Create a private bucket for documents, which sends its events to EventBridge.

    Args:
        scope: The parent of the bucket.
        id: The id of the bucket in it.
        key: A KMS key. By default, S3's own key encrypts the documents.
    """
    bucket = private_bucket(scope, id, key=key)
    resource = bucket.node.default_child
    assert isinstance(resource, s3.CfnBucket)  # noqa: S101 - for mypy
    # The property of `s3.Bucket` would turn it on with a function of the CDK's own.
    resource.add_property_override(
        "NotificationConfiguration.EventBridgeConfiguration.EventBridgeEnabled", True
    )
    reason = "A log of accesses needs another bucket; CloudTrail has one."
    acknowledge(bucket, "AwsSolutions-S1", reason=reason)
    return bucket
