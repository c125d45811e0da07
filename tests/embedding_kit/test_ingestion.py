"""Test documents in an index: settings, events, queues, function, permissions, reconciliation."""

import json

import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from embedding_kit import (
    Hosting,
    Ingestion,
    IngestSettings,
    PartAlarms,
    VectorIndex,
    VectorIndexSettings,
)
from jobs.ingest.run import IngestConfig, ReconcileSteps
from jobs.steps import read_settings
from tests.embedding_kit.roles import HOME, KEY, allowed, of_kind, only, resolved, statements

INDEX = f"arn:aws:s3vectors:us-east-1:{HOME}:bucket/one/index/one"
DOCS = "arn:aws:s3:::documents/docs"
RECORDS = "arn:aws:s3:::documents/_ingest/0123"


@pytest.fixture(scope="module")
def template(synthesize, model) -> Template:
    """Return the template of an index with documents."""
    index = VectorIndexSettings(filterable=("lang",), non_filterable=("url",))

    def build(stack):
        ingestion = Ingestion(
            stack,
            "Ingestion",
            model=model,
            index=VectorIndex(stack, "Index", model=model, settings=index),
            settings=IngestSettings(
                source="s3://documents/docs/", tags=True, questions="_questions/golden.jsonl"
            ),
            index_settings=index,
            name="test",
            hosting=Hosting(existing_keys=[f"{KEY}2222bbbb"]),
        )
        PartAlarms(stack, "Alarms", part=ingestion)

    return synthesize(build)


def test_the_function_reads_its_settings(template):
    """The index's metadata keys are among them."""
    variables = only(template, "AWS::Lambda::Function")["Environment"]["Variables"]
    given = json.loads(resolved(variables["EMBEDDING_INGEST"]))
    read = read_settings(IngestConfig, given, name="EMBEDDING_INGEST")
    assert (read.source, read.records) == ("s3://documents/docs/", "s3://documents/_ingest/")
    assert (read.index, read.metadata, read.tags) == (INDEX, ("lang", "url"), True)
    assert read.questions == "s3://documents/_questions/golden.jsonl"


def test_the_alarms_of_the_nightly_checks_keep_their_state_until_the_next_night(template):
    """Their metrics are those of the last step."""
    alarms = [
        alarm
        for alarm in of_kind(template, "AWS::CloudWatch::Alarm")
        if alarm["TreatMissingData"] == "ignore"
    ]
    (golden,) = (alarm for alarm in alarms if "MetricName" in alarm)
    assert (golden["Threshold"], golden["ComparisonOperator"]) == (90, "LessThanThreshold")
    (wrong,) = (alarm for alarm in alarms if "Metrics" in alarm)
    read = {
        metric["MetricStat"]["Metric"]["MetricName"]
        for metric in wrong["Metrics"]
        if "MetricStat" in metric
    }
    assert read | {golden["MetricName"]} == ReconcileSteps.final_metrics.keys()
    assert (wrong["Threshold"], wrong["ComparisonOperator"]) == (0, "GreaterThanThreshold")


@pytest.mark.parametrize(
    ("source", "keys", "tag_events"),
    [
        ("s3://documents/docs/", {"prefix": "docs/"}, []),
        (
            "s3://documents",
            {"anything-but": {"prefix": "_ingest/"}},
            ["Object Tags Added", "Object Tags Deleted"],
        ),
    ],
)
def test_no_record_is_an_event_of_a_document(synthesize, model, source, keys, tag_events):
    """The function would start itself forever. Events of tags come if tags are metadata."""
    made = synthesize(
        lambda stack: Ingestion(
            stack,
            "Ingestion",
            model=model,
            index=VectorIndex(stack, "Index", model=model),
            settings=IngestSettings(source=source, tags=bool(tag_events)),
        )
    )
    made.has_resource_properties(
        "AWS::Events::Rule",
        {
            "EventPattern": {
                "source": ["aws.s3"],
                "detail-type": ["Object Created", "Object Deleted", *tag_events],
                "detail": {"bucket": {"name": ["documents"]}, "object": {"key": [keys]}},
            }
        },
    )


def test_documents_are_in_one_place(synthesize, model):
    """A folder of the settings, or a bucket."""

    def build(stack):
        index = VectorIndex(stack, "Index", model=model)
        Ingestion(stack, "Ingestion", model=model, index=index, settings=IngestSettings())

    with pytest.raises(ValueError, match="found: neither; allowed: bucket or settings"):
        synthesize(build)


MAY = [
    ("IngestionRole", "s3:GetObject", f"{DOCS}/a.md"),
    ("IngestionRole", "s3:GetObjectTagging", f"{DOCS}/a.md"),
    ("IngestionRole", "s3:ListBucket", "arn:aws:s3:::documents"),
    ("IngestionRole", "s3:PutObject", f"{RECORDS}/chunks/a.json"),
    ("IngestionRole", "s3:GetObject", "arn:aws:s3:::documents/_questions/golden.jsonl"),
    ("IngestionRole", "s3vectors:PutVectors", INDEX),
    ("IngestionRole", "s3vectors:QueryVectors", INDEX),
    ("IngestionRole", "s3vectors:DeleteVectors", INDEX),
    ("IngestionRole", "s3vectors:TagResource", INDEX),
]
MAY_NOT = [
    ("IngestionRole", "s3:GetObjectTagging", f"{RECORDS}/chunks/a.json"),
    ("IngestionRole", "s3:PutObjectTagging", f"{DOCS}/a.md"),
    ("IngestionRole", "s3:PutObject", f"{DOCS}/a.md"),
    ("IngestionRole", "s3:DeleteObject", f"{DOCS}/a.md"),
    ("IngestionRole", "s3:DeleteObject", f"{RECORDS}/chunks/a.json"),
    ("IngestionRole", "s3:GetObject", "arn:aws:s3:::documents/other/a.md"),
    ("IngestionRole", "s3:GetObject", "arn:aws:s3:::documents/_questions/other.jsonl"),
    ("IngestionRole", "s3vectors:QueryVectors", f"{INDEX}2"),
    ("IngestionRole", "s3vectors:DeleteVectors", f"{INDEX}2"),
]


def test_the_key_of_the_kits_own_bucket_may_be_used(synthesize, model):
    """Without it, no object of the bucket could be read."""
    own = f"{KEY}2222bbbb-22bb-33cc-44dd-555566667777"

    def build(stack):
        key = kms.Key.from_key_arn(stack, "Key", own)
        Ingestion(
            stack,
            "Ingestion",
            model=model,
            index=VectorIndex(stack, "Index", model=model),
            settings=IngestSettings(),
            bucket=s3.Bucket(stack, "Documents", encryption_key=key),
        )

    found = [each for each in statements(synthesize(build), "IngestionRole") if own in str(each)]
    assert found
    assert {"kms:Decrypt", "kms:GenerateDataKey"} <= set(found[0]["Action"])


def test_the_function_reads_documents_and_writes_lists_and_vectors(template):
    """No document is ever changed."""
    assert allowed(template, MAY + MAY_NOT) == MAY


def test_without_questions_no_index_is_searched(synthesize, model):
    """The function may not, and there is no alarm on golden questions."""

    def build(stack):
        settings = IngestSettings(source="s3://documents/docs/")
        index = VectorIndex(stack, "Index", model=model)
        ingestion = Ingestion(stack, "Ingestion", model=model, index=index, settings=settings)
        PartAlarms(stack, "Alarms", part=ingestion)

    template = synthesize(build)
    assert "s3vectors:QueryVectors" not in json.dumps(statements(template))
    assert "GoldenFound" not in json.dumps(of_kind(template, "AWS::CloudWatch::Alarm"))


@pytest.mark.parametrize("encrypted", [True, False])
def test_the_queues_have_the_apps_key(synthesize, model, encrypted):
    """The rule may use it, for this account, and the function through SQS alone."""

    def build(stack):
        Ingestion(
            stack,
            "Ingestion",
            model=model,
            index=VectorIndex(stack, "Index", model=model),
            settings=IngestSettings(source="s3://documents/"),
            hosting=Hosting(environment_encryption=kms.Key(stack, "Key") if encrypted else None),
        )

    found = synthesize(build).to_json()["Resources"].values()
    queues = [one["Properties"] for one in found if one["Type"] == "AWS::SQS::Queue"]
    assert len(queues) == 2
    for queue in queues:
        assert ("KmsMasterKeyId" in queue) is encrypted
        assert ("SqsManagedSseEnabled" in queue) is not encrypted
    if not encrypted:
        return
    (key,) = (one["Properties"] for one in found if one["Type"] == "AWS::KMS::Key")
    (events,) = (
        statement
        for statement in key["KeyPolicy"]["Statement"]
        if statement["Principal"].get("Service") == "events.amazonaws.com"
    )
    assert events["Action"] == ["kms:Decrypt", "kms:GenerateDataKey*"]
    assert events["Condition"]["StringEquals"].keys() == {"aws:SourceAccount"}
    used = [
        (statement["Action"], statement["Condition"]["StringEquals"])
        for one in found
        if one["Type"] == "AWS::IAM::Policy"
        for statement in one["Properties"]["PolicyDocument"]["Statement"]
        if "kms:" in str(statement["Action"])
    ]
    (actions, only) = used.pop()
    assert actions == ["kms:Decrypt", "kms:GenerateDataKey"]
    assert resolved(only["kms:ViaService"]) == "sqs.us-east-1.amazonaws.com"
    assert not used
