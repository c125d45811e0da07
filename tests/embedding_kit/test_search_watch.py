"""Test the watch: its settings, its function, its permissions and its alarms."""

import json

import pytest
from aws_cdk.assertions import Template

from embedding_kit import (
    Hosting,
    Ingestion,
    IngestSettings,
    PartAlarms,
    SearchWatch,
    VectorIndex,
    WatchSettings,
)
from jobs.ingest.run import IngestSettings as FunctionSettings
from jobs.steps import read_settings
from jobs.watch.run import WatchSettings as FunctionWatchSettings
from jobs.watch.run import WatchSteps
from tests.embedding_kit.roles import HOME, KEY, allowed, of_kind, resolved

INDEX = f"arn:aws:s3vectors:us-east-1:{HOME}:bucket/one/index/one"
BUCKET = "arn:aws:s3:::documents"
QUESTIONS = "_watch/questions.jsonl"


@pytest.fixture(scope="module")
def template(synthesize, model) -> Template:
    """Return the template of an index with documents and a watch."""

    def build(stack):
        index = VectorIndex(stack, "Index", model=model)
        source = IngestSettings(source="s3://documents/docs/", tags=True)
        hosting = Hosting(existing_keys=[f"{KEY}2222bbbb"])
        ingestion = Ingestion(
            stack, "Ingestion", model=model, index=index, settings=source, hosting=hosting
        )
        settings = WatchSettings(questions=QUESTIONS)
        watch = SearchWatch(
            stack, "Watch", model=model, index=index, ingestion=ingestion, settings=settings
        )
        PartAlarms(stack, "Alarms", part=watch)

    return synthesize(build)


def test_the_function_reads_its_settings(template):
    """The documents are those of the function that indexes them."""
    functions = of_kind(template, "AWS::Lambda::Function")
    variables = [each["Environment"]["Variables"] for each in functions]
    first, second = (resolved(each["EMBEDDING_INGEST"]) for each in variables)
    assert first == second
    ingest = read_settings(FunctionSettings, json.loads(first), name="EMBEDDING_INGEST")
    assert (ingest.source, ingest.index) == ("s3://documents/docs/", INDEX)
    (watch,) = (each["EMBEDDING_WATCH"] for each in variables if "EMBEDDING_WATCH" in each)
    read = read_settings(FunctionWatchSettings, json.loads(watch), name="EMBEDDING_WATCH")
    assert (read.sample, read.questions) == (1000, f"s3://documents/{QUESTIONS}")


def test_each_alarm_keeps_its_state_until_the_next_run(template):
    """Its metric is one that the function writes, or its errors."""
    alarms = of_kind(template, "AWS::CloudWatch::Alarm")
    assert {each["TreatMissingData"] for each in alarms} == {"ignore"}
    metrics = {each["MetricName"]: each for each in alarms}
    assert metrics.keys() - WatchSteps.metrics.keys() == {"Errors"}
    below, above = "LessThanThreshold", "GreaterThanThreshold"
    assert {
        name: (alarm["Threshold"], alarm["ComparisonOperator"])
        for name, alarm in metrics.items()
        if name != "Errors"
    } == {
        "Recall": (90, below),
        "GoldenFound": (90, below),
        "WrongVectors": (0, above),
        "OldestChange": (3600, above),
    }


MAY = [
    ("WatchRole", "s3:GetObject", f"{BUCKET}/docs/a.md"),
    ("WatchRole", "s3:GetObjectTagging", f"{BUCKET}/docs/a.md"),
    ("WatchRole", "s3:GetObject", f"{BUCKET}/_ingest/0123/chunks/a.json"),
    ("WatchRole", "s3:GetObject", f"{BUCKET}/_ingest/0123/watch/a.json"),
    ("WatchRole", "s3:PutObject", f"{BUCKET}/_ingest/0123/watch/a.json"),
    ("WatchRole", "s3:GetObject", f"{BUCKET}/_watch/questions.jsonl"),
    ("WatchRole", "s3:ListBucket", BUCKET),
    ("WatchRole", "s3vectors:QueryVectors", INDEX),
    ("WatchRole", "s3vectors:ListVectors", INDEX),
    ("WatchRole", "s3vectors:GetVectors", INDEX),
]
MAY_NOT = [
    ("WatchRole", "s3vectors:PutVectors", INDEX),
    ("WatchRole", "s3vectors:DeleteVectors", INDEX),
    ("WatchRole", "s3vectors:TagResource", INDEX),
    ("WatchRole", "s3vectors:QueryVectors", f"{INDEX}2"),
    ("WatchRole", "s3:PutObject", f"{BUCKET}/_ingest/0123/chunks/a.json"),
    ("WatchRole", "s3:PutObject", f"{BUCKET}/docs/a.md"),
    ("WatchRole", "s3:DeleteObject", f"{BUCKET}/_ingest/0123/watch/a.json"),
    ("WatchRole", "s3:GetObject", f"{BUCKET}/_watch/other.jsonl"),
    ("WatchRole", "sqs:SendMessage", "*"),
]


def test_the_function_reads_everything_and_writes_reports(template):
    """It changes neither documents, nor their lists, nor the index."""
    assert allowed(template, MAY + MAY_NOT) == MAY
