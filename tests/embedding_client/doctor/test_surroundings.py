"""The alarms and logs, and the parts where they are switched on."""

from typing import Any

import httpx2
import pytest

from embedding_client.doctor import SkippedError
from embedding_client.doctor.surroundings import (
    check_alarms,
    check_batch,
    check_documents,
    check_front,
    check_index,
    check_logs,
    check_server,
    check_subscribers,
)

from .conftest import FAILED, NOW, OK, SPACE, WARNING, deployed, raises, resources, stack


def alarm(name, state="OK", section="errors", **more):
    return {
        "AlarmName": f"EmbeddingKit-dev-Observability-Alarms{name}",
        "StateValue": state,
        "AlarmDescription": f"Text. Runbook: docs/runbook.md#{section}",
        **more,
    }


BLIND, PAGE = "INSUFFICIENT_DATA", "docs/runbook.md"
RINGING, MUTE = alarm("A", "ALARM", "throttles"), alarm("A", ActionsEnabled=False)
FOREIGN = {"AlarmName": "mine", "StateValue": "ALARM"}


@pytest.mark.parametrize(
    ("alarms", "state", "words", "advice"),
    [
        ([alarm("A"), alarm("B")], OK, "2 in OK", ""),
        ([RINGING, alarm("B", BLIND)], FAILED, "1 of 2 in ALARM: throttles", f"{PAGE}#throttles"),
        ([FOREIGN], FAILED, "1 of 1 in ALARM: mine", "read the descriptions of the alarms"),
        (
            [alarm(name, BLIND, f"s{name}") for name in "ABCDEFG"],
            WARNING,
            f"7 of 7 in {BLIND}: sA, sB, sC, sD, sE and 2 more",
            "normal in the first hour",
        ),
        ([MUTE], WARNING, "1 of 1 have their actions disabled: errors", "aws cloudwatch enable-a"),
        ([], WARNING, "no alarms", "deploy the Observability stack"),
    ],
)
def test_the_states_of_the_alarms(aws, snapshot, *, alarms, state, words, advice):
    """An alarm has its section of the runbook, and its name for programs."""
    deployed(aws)
    names = [alarm["AlarmName"] for alarm in alarms]
    listed = resources({"AWS::CloudWatch::Alarm": names})
    aws.answers("cloudformation", "list_stack_resources", listed)
    if alarms:
        aws.answers("cloudwatch", "describe_alarms", {"MetricAlarms": alarms})
    found = check_alarms(snapshot())
    assert (found.state, found.found) == (state, words)
    assert found.advice.startswith(advice)
    if state == FAILED:
        assert found.data["alarm"] == names[:1]


def test_the_alarms_are_those_of_the_stacks(aws, snapshot):
    """Those of releases too, which have other names; a hundred are asked for at a time."""
    deployed(aws, stack("Observability"))
    names = [[f"release{number}" for number in range(3)], [f"a{number}" for number in range(99)]]
    listed = ("cloudformation", "list_stack_resources")
    aws.answers(*listed, resources({"AWS::CloudWatch::Alarm": names[0], "AWS::IAM::Role": ["r"]}))
    kinds = {"AWS::CloudWatch::Alarm": names[1], "AWS::CloudWatch::CompositeAlarm": ["page"]}
    aws.answers(*listed, resources(kinds))
    expected = [*names[0], *names[1], "page"]
    for asked in (expected[:100], expected[100:]):
        aws.answers(
            "cloudwatch",
            "describe_alarms",
            {"MetricAlarms": [alarm(name) for name in asked]},
            {
                "AlarmNames": asked,
                "AlarmTypes": ["MetricAlarm", "CompositeAlarm"],
                "MaxRecords": 100,
            },
        )
    assert check_alarms(snapshot()).found == "103 in OK"


TOPIC, URGENT = (f"arn:aws:sns:eu-central-1:123456789012:{name}" for name in ("topic", "page"))


@pytest.mark.parametrize(
    ("topics", "arns", "state", "words"),
    [
        ({"AlarmTopicArn": TOPIC}, [[]], WARNING, "no subscriber"),
        ({"PageTopicArn": URGENT}, [[f"{URGENT}:1"]], OK, "1 confirmed subscribers"),
        ({"AlarmTopicArn": TOPIC, "PageTopicArn": URGENT}, [[], [f"{URGENT}:1"]], WARNING, "no"),
        ({}, [], WARNING, "no subscriber"),
        ({"PageTopicArn": URGENT}, [[f"{URGENT}:1", "Pending"]], WARNING, "1 of 2 subscribers h"),
    ],
)
def test_each_topic_has_a_subscriber_who_has_confirmed(
    aws, snapshot, *, topics, arns, state, words
):
    """The topics are outputs of the stack of observability."""
    deployed(aws, stack("Observability", **topics))
    for topic, found in zip(topics.values(), arns, strict=True):
        answer = {"Subscriptions": [{"SubscriptionArn": arn} for arn in found]}
        aws.answers("sns", "list_subscriptions_by_topic", answer, {"TopicArn": topic})
    result = check_subscribers(snapshot())
    assert (result.state, result.found.startswith(words)) == (state, True)


def test_alarms_of_another_app_have_no_topic(aws, snapshot):
    """The environment has no stack of observability."""
    deployed(aws)
    with pytest.raises(SkippedError, match="no alarms of its own"):
        check_subscribers(snapshot())


@pytest.mark.parametrize(
    ("logging", "group", "expected"),
    [
        ({}, {"retentionInDays": 7}, (OK, "JSON, system log level INFO, kept 7 days")),
        ({"SystemLogLevel": "DEBUG"}, {"retentionInDays": 7}, (OK, "JSON, system log level")),
        ({"SystemLogLevel": "WARN"}, {}, (FAILED, "JSON, system log level WARN: alarms on")),
        ({"LogFormat": "Text"}, {}, (FAILED, "Text, system log level INFO: alarms on")),
        ({}, {}, (WARNING, "logs are kept forever, and billed")),
        ({}, None, (FAILED, "the log group /aws/group does not exist")),
    ],
)
def test_the_logs(aws, snapshot, logging, group, expected):
    """Alarms need JSON at INFO; another group with the same beginning does not count."""
    deployed(aws)
    config = {"LogFormat": "JSON", "SystemLogLevel": "INFO", "LogGroup": "/aws/group"}
    answer = {"LoggingConfig": config | logging}
    aws.answers("lambda", "get_function_configuration", answer)
    groups = [{"logGroupName": "/aws/group2", "retentionInDays": 1}]
    if group is not None:
        groups.append({"logGroupName": "/aws/group", **group})
    asked = {"logGroupNamePrefix": "/aws/group"}
    aws.answers("logs", "describe_log_groups", {"logGroups": groups}, asked)
    found = check_logs(snapshot())
    state, words = expected
    assert (found.state, found.found.startswith(words)) == (state, True)


INDEX = "arn:aws:s3vectors:eu-central-1:123456789012:bucket/b/index/i"
MACHINE = "arn:aws:states:eu-central-1:123456789012:stateMachine:m"


@pytest.mark.parametrize(
    ("check", "words"),
    [
        (check_front, r"\[front\] is off"),
        (check_batch, r"\[batch\] is off"),
        (check_index, r"\[index\] is off"),
        (check_documents, r"\[ingest\] is off"),
        (check_server, r"\[server\] is off"),
    ],
)
def test_a_part_that_is_off_is_skipped(aws, snapshot, check, words):
    """It has no stack."""
    deployed(aws)
    with pytest.raises(SkippedError, match=words):
        check(snapshot())


@pytest.mark.parametrize(
    ("status", "state"), [("RUNNING", OK), ("SUCCEEDED", OK), ("FAILED", WARNING), (None, OK)]
)
def test_the_newest_job(aws, snapshot, status, state):
    """A failed one is a warning; the state machine is an output."""
    deployed(aws, stack("Batch", StateMachineArn=MACHINE))
    arn = MACHINE.replace("stateMachine", "execution")
    job = {"executionArn": arn, "stateMachineArn": MACHINE, "name": "docs-1", "startDate": NOW}
    answer = {"executions": [{**job, "status": status}] if status else []}
    asked = {"stateMachineArn": MACHINE, "maxResults": 1}
    aws.answers("stepfunctions", "list_executions", answer, asked)
    found = check_batch(snapshot())
    words = f"the newest job docs-1: {status}" if status else "no job yet"
    assert (found.state, found.found) == (state, words)


@pytest.mark.parametrize(
    ("loaded", "state", "words"),
    [
        ("model@1/int8/abc/128", OK, "loaded with vectors of model@1/int8/abc/128"),
        (
            "model@2/int8/abc/128",
            FAILED,
            f"loaded with vectors of model@2/int8/abc/128, but the endpoint serves {SPACE}",
        ),
        (None, WARNING, "no vectors are loaded"),
    ],
)
def test_the_index_must_have_vectors_of_the_endpoint(aws, snapshot, loaded, state, words):
    """Of the same space, with any of its dimensions."""
    deployed(aws, stack("Index", IndexArn=INDEX))
    tags = {"tags": {"embedding-kit:vector-space": loaded} if loaded else {}}
    aws.answers("s3vectors", "list_tags_for_resource", tags, {"resourceArn": INDEX})
    served = httpx2.Response(200, headers={"x-vector-space": SPACE})
    found = check_index(snapshot(lambda _: served))
    assert (found.state, found.found) == (state, words)


@pytest.mark.parametrize(
    ("sends", "letters", "state", "words"),
    [
        (True, 0, OK, "the bucket docs sends events; no dead letters"),
        (False, 0, FAILED, "the bucket docs sends no events to EventBridge"),
        (True, 2, WARNING, "2 dead letters"),
    ],
)
def test_the_bucket_of_documents_must_send_events(aws, snapshot, *, sends, letters, state, words):
    """Without them the index is right once a day; dead letters are a warning."""
    url = "https://sqs.eu-central-1.amazonaws.com/1/letters"
    deployed(aws, stack("Index", DocumentsUrl="s3://docs/handbook/", DeadLettersUrl=url))
    sent: dict[str, Any] = {"EventBridgeConfiguration": {}} if sends else {}
    aws.answers("s3", "get_bucket_notification_configuration", sent, {"Bucket": "docs"})
    asked = {"QueueUrl": url, "AttributeNames": ["ApproximateNumberOfMessages"]}
    answer = {"Attributes": {"ApproximateNumberOfMessages": str(letters)}}
    aws.answers("sqs", "get_queue_attributes", answer, asked)
    found = check_documents(snapshot())
    assert (found.state, found.found) == (state, words)


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        (lambda _: httpx2.Response(200), OK, "ready"),
        (lambda _: httpx2.Response(503), FAILED, "the response to GET /ready is 503"),
        (
            raises(httpx2.ConnectTimeout("late")),
            WARNING,
            "no answer (ConnectTimeout at server.example.com)",
        ),
    ],
)
def test_the_server_is_asked_whether_it_is_ready(aws, snapshot, answer, state, words):
    """From a host that may not reach it, nothing is known."""
    deployed(aws, stack("Server", Url="https://server.example.com/"))
    asked = []

    def record(request):
        asked.append((str(request.url), "authorization" in request.headers))
        return answer(request)

    found = check_server(snapshot(record))
    assert (found.state, found.found) == (state, words)
    assert asked == [("https://server.example.com/ready", False)]


FRONT = "https://abc123.execute-api.eu-central-1.amazonaws.com/live/"


@pytest.mark.parametrize(
    ("status", "body", "state", "found"),
    [
        (401, {"error": {"code": "invalid_api_key"}}, OK, "401 invalid_api_key"),
        (403, {"error": {"code": "access_denied"}}, OK, "403 access_denied"),
        # Not by the templates of the API: somebody else answers, or the API is an old one.
        (403, {"message": "Forbidden"}, FAILED, "403 instead of 401"),
        (200, {"status": "ok"}, FAILED, "200 instead of 401"),
        (500, {"error": {"code": "internal_error"}}, FAILED, "500"),
    ],
)
def test_the_api_in_front_wants_a_key(aws, snapshot, *, status, body, state, found):
    """Only the API's own refusal of a request without a key and a signature is right."""
    deployed(aws, stack("Front", Url=FRONT))
    requests = []

    def answer(request):
        requests.append(request)
        return httpx2.Response(status, json=body)

    finding = check_front(snapshot(answer))
    assert finding.state == state
    assert finding.found.startswith(f"without a key: {found}")
    (request,) = requests
    assert str(request.url) == f"{FRONT}health"
    assert not {"authorization", "x-api-key"} & set(request.headers)


def test_a_private_api_cannot_be_reached_from_everywhere(aws, snapshot):
    """That is a warning, with the host and without its path."""
    deployed(aws, stack("Front", Url=FRONT))
    finding = check_front(snapshot(raises(httpx2.ConnectError("no route"))))
    host = "abc123.execute-api.eu-central-1.amazonaws.com"
    assert (finding.state, finding.found) == (WARNING, f"no answer (ConnectError at {host})")
