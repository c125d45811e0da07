"""Test documents in an index: settings, events, queues, function, permissions, reconciliation."""

import json

import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Template

from embedding_kit import Hosting, Ingestion, IngestSettings, VectorIndex, VectorIndexSettings
from jobs.ingest.run import IngestSettings as FunctionSettings
from jobs.steps import read_settings
from tests.embedding_kit.roles import HOME, KEY, allowed, only, resolved, statements

INDEX = f"arn:aws:s3vectors:us-east-1:{HOME}:bucket/one/index/one"
DOCS = "arn:aws:s3:::documents/docs"
RECORDS = "arn:aws:s3:::documents/_ingest/0123"


@pytest.fixture(scope="module")
def template(synthesize, model) -> Template:
    """Return the template of an index with documents."""
    index = VectorIndexSettings(filterable=("lang",), non_filterable=("url",))

    def build(stack):
        Ingestion(
            stack,
            "Ingestion",
            model=model,
            index=VectorIndex(stack, "Index", model=model, settings=index),
            settings=IngestSettings(source="s3://documents/docs/", tags=True),
            index_settings=index,
            name="test",
            hosting=Hosting(existing_keys=[f"{KEY}2222bbbb"]),
        )

    return synthesize(build)


def test_the_function_reads_its_settings(template):
    """The index's metadata keys are among them."""
    variables = only(template, "AWS::Lambda::Function")["Environment"]["Variables"]
    given = json.loads(resolved(variables["EMBEDDING_INGEST"]))
    read = read_settings(FunctionSettings, given, name="EMBEDDING_INGEST")
    assert (read.source, read.records) == ("s3://documents/docs/", "s3://documents/_ingest/")
    assert (read.index, read.metadata, read.tags) == (INDEX, ("lang", "url"), True)


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
    ("IngestionRole", "s3vectors:PutVectors", INDEX),
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
    ("IngestionRole", "s3vectors:QueryVectors", INDEX),
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
