"""`embed ingest status`, with AWS's answers by botocore's stubs, which check each request."""

import json
from datetime import UTC, datetime

import pytest
from botocore.stub import ANY

from embedding_client import _ingest_command, _jobs
from tests.embedding_client.doctor.conftest import Stubs

MACHINE = "arn:aws:states:eu-central-1:123456789012:stateMachine:docs"
EXECUTION = "arn:aws:states:eu-central-1:123456789012:execution:docs:one"
NOW = datetime(2026, 11, 24, 3, tzinfo=UTC)
OUTPUTS = {
    "DocumentsUrl": "s3://docs/handbook/",
    "EventsUrl": "https://sqs/events",
    "DeadLettersUrl": "https://sqs/letters",
    "IngestFunctionName": "ingest",
    "IngestStateMachineArn": MACHINE,
}
RESULT = {
    "documents": 1200,
    "chunks": 34567,
    "refused": 3,
    "incomplete": 2,
    "changed": 7,
    "busy": 0,
}


@pytest.fixture
def aws(monkeypatch):
    stubs = Stubs()
    for module in (_ingest_command, _jobs):
        monkeypatch.setattr(module, "aws_client", lambda service, *_, **__: stubs(service))
    yield stubs
    stubs.close()


def stack_of(aws, outputs):
    described = [{"OutputKey": key, "OutputValue": value} for key, value in outputs.items()]
    found = {"StackName": "x", "CreationTime": NOW, "StackStatus": "x", "Outputs": described}
    asked = {"StackName": "EmbeddingKit-dev-Index"}
    aws.answers("cloudformation", "describe_stacks", {"Stacks": [found]}, asked)


def queue_of(aws, url, **counts):
    answer = {"Attributes": {name: str(count) for name, count in counts.items()}}
    asked = {"QueueUrl": url, "AttributeNames": list(counts)}
    aws.answers("sqs", "get_queue_attributes", answer, asked)


def answer(aws, *states, points=()):
    stack_of(aws, OUTPUTS)
    queue_of(
        aws,
        "https://sqs/events",
        ApproximateNumberOfMessages=4,
        ApproximateNumberOfMessagesNotVisible=1,
    )
    queue_of(aws, "https://sqs/letters", ApproximateNumberOfMessages=3)
    asked = {
        "Namespace": "EmbeddingKit/dev",
        "MetricName": "SearchableDelay",
        "Dimensions": [{"Name": "FunctionName", "Value": "ingest"}],
        "StartTime": ANY,
        "EndTime": ANY,
        "Period": 86_400,
        "ExtendedStatistics": ["p50", "p99"],
    }
    aws.answers("cloudwatch", "get_metric_statistics", {"Datapoints": list(points)}, asked)
    found = [
        {
            "executionArn": EXECUTION,
            "stateMachineArn": MACHINE,
            "name": name,
            "status": state,
            "startDate": NOW,
        }
        for name, state in states
    ]
    aws.answers("stepfunctions", "list_executions", {"executions": found}, None)


def test_the_state_of_the_documents_is_that_of_the_last_comparison(aws, command):
    """The newest one may still run; events and dead letters are those of now."""
    for _ in range(2):
        point = {"ExtendedStatistics": {"p50": 1.25, "p99": 30.0}}
        answer(aws, ("two", "RUNNING"), ("one", "SUCCEEDED"), points=[point])
        described = {
            "executionArn": EXECUTION,
            "stateMachineArn": MACHINE,
            "status": "SUCCEEDED",
            "startDate": NOW,
            "stopDate": NOW,
            "input": "{}",
            "output": json.dumps(RESULT),
        }
        asked = {"executionArn": EXECUTION}
        aws.answers("stepfunctions", "describe_execution", described, asked)
        aws.answers("stepfunctions", "list_map_runs", {"mapRuns": []}, asked)
    assert command("ingest", "status", "dev")[1] == (
        "source       s3://docs/handbook/\n"
        "documents    1,200, with 34,567 chunks\n"
        "refused      3\n"
        "incomplete   2\n"
        "compared     2026-11-24 03:00 UTC, 7 repaired\n"
        "newest       running\n"
        "waiting      5 events\n"
        "dead letters 3\n"
        "searchable   p50 1.2 s, p99 30.0 s after the event, in the last day\n"
    )
    shown = json.loads(command("ingest", "status", "dev", "--json")[1])
    assert shown["compared"] == "2026-11-24T03:00:00+00:00"
    assert {**shown, **RESULT, "waiting": 5, "dead_letters": 3} == shown


def test_before_the_first_comparison_the_documents_are_not_known(aws, command):
    """The state machine to start is named."""
    answer(aws)
    code, shown, _ = command("ingest", "status", "dev")
    assert (code, f"documents    not known yet; start {MACHINE}\n" in shown) == (0, True)
    assert "searchable   no event today\n" in shown


def test_an_environment_without_documents_has_no_status(aws, command):
    """The index may have been made for batch jobs."""
    stack_of(aws, {"IndexArn": "x"})
    code, _, err = command("ingest", "status", "dev")
    assert (code, "The environment dev has no [ingest]." in err) == (2, True)
