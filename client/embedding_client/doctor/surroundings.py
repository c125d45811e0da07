"""The alarms and logs of an endpoint, and the parts that an environment may have."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx2

from embedding_client._index import SPACE_TAG
from embedding_client.doctor import CheckResult, SkippedError, failed, ok, warning
from embedding_client.doctor.snapshot import Snapshot

#: Alarms that CloudWatch describes at a time.
_PAGE = 100
_MOST_NAMES = 5
#: The section of the runbook at the end of an alarm's description.
_SECTION = re.compile(r"runbook\S*#(\w+)$")


def check_alarms(snapshot: Snapshot) -> CheckResult:
    """Read the state of each alarm of the environment's stacks."""
    names, alarms = snapshot.alarm_names(), []
    for start in range(0, len(names), _PAGE):
        answer = snapshot.aws.call(
            "cloudwatch",
            "describe_alarms",
            AlarmNames=names[start : start + _PAGE],
            AlarmTypes=["MetricAlarm", "CompositeAlarm"],
            MaxRecords=_PAGE,
        )
        alarms += [*answer.get("MetricAlarms", []), *answer.get("CompositeAlarms", [])]
    if not alarms:
        return warning(
            "no alarms", "deploy the Observability stack, or monitor the metrics yourself"
        )
    ringing, blind = (
        [alarm for alarm in alarms if alarm["StateValue"] == state]
        for state in ("ALARM", "INSUFFICIENT_DATA")
    )
    muted = [alarm for alarm in alarms if alarm.get("ActionsEnabled", True) is False]
    groups = {"alarm": ringing, "insufficient_data": blind, "muted": muted}
    data = {name: [alarm["AlarmName"] for alarm in group] for name, group in groups.items()}
    if ringing:
        sections = sorted({_section(alarm) for alarm in ringing} - {""})
        return failed(
            f"{len(ringing)} of {len(alarms)} in ALARM: {_some(ringing)}",
            ", ".join(f"docs/runbook.md#{section}" for section in sections)
            or "read the descriptions of the alarms",
            **data,
        )
    if muted:
        return warning(
            f"{len(muted)} of {len(alarms)} have their actions disabled: {_some(muted)}",
            "aws cloudwatch enable-alarm-actions --alarm-names NAME",
            **data,
        )
    if blind:
        return warning(
            f"{len(blind)} of {len(alarms)} in INSUFFICIENT_DATA: {_some(blind)}",
            "normal in the first hour, and until an alarm's event has happened once; "
            "otherwise docs/runbook.md#missingplatformlogs",
            **data,
        )
    return ok(f"{len(alarms)} in OK", **data)


def check_subscribers(snapshot: Snapshot) -> CheckResult:
    """Read who is subscribed to each topic of the alarms."""
    if "Observability" not in snapshot.stacks():
        raise SkippedError("the environment has no alarms of its own")
    subscriptions = [
        snapshot.aws.pages("sns", "list_subscriptions_by_topic", "Subscriptions", TopicArn=topic)
        for key in ("AlarmTopicArn", "PageTopicArn")
        if (topic := snapshot.output("Observability", key))
    ]
    if not subscriptions or not all(subscriptions):
        return warning("no subscriber", "set emails under [alarms], or subscribe to its page_topic")
    arns = [item["SubscriptionArn"] for items in subscriptions for item in items]
    if pending := sum(not arn.startswith("arn:") for arn in arns):
        return warning(
            f"{pending} of {len(arns)} subscribers have not confirmed",
            "follow the link in the email from SNS",
            pending=pending,
        )
    return ok(f"{len(arns)} confirmed subscribers", subscribers=len(arns))


def check_logs(snapshot: Snapshot) -> CheckResult:
    """Read how the function logs, and its log group."""
    logging = snapshot.function().get("LoggingConfig", {})
    name = logging.get("LogGroup", "")
    groups = snapshot.aws.call("logs", "describe_log_groups", logGroupNamePrefix=name)["logGroups"]
    group = next((group for group in groups if group["logGroupName"] == name), None)
    environment = snapshot.environment()
    # Metric filters read the platform's JSON at INFO.
    form, level = logging.get("LogFormat", "Text"), logging.get("SystemLogLevel", "INFO")
    summary = f"{form}, system log level {level}"
    if form != "JSON" or level not in {"INFO", "DEBUG"}:
        return failed(
            f"{summary}: alarms on memory and cold starts have no data",
            f"scripts/deploy {environment} sets JSON and INFO",
        )
    if group is None:
        return failed(
            f"the log group {name} does not exist", f"scripts/deploy {environment} creates it"
        )
    days = group.get("retentionInDays")
    if days is None:
        return warning(
            "logs are kept forever, and billed",
            "set log_retention_days under [function], and deploy",
        )
    return ok(f"{summary}, kept {days} days", days=days)


def _some(alarms: Sequence[Mapping[str, Any]]) -> str:
    names = sorted({_section(alarm) or alarm["AlarmName"] for alarm in alarms})
    unnamed = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {unnamed} more" if unnamed > 0 else "")


def _section(alarm: Mapping[str, Any]) -> str:
    """Return the alarm's section of the runbook, which is its short name; or nothing."""
    section = _SECTION.search(alarm.get("AlarmDescription") or "")
    return section[1] if section else ""


def _output(snapshot: Snapshot, stack: str, key: str, table: str) -> str:
    """Return an output of a stack, or skip the check of a table that is off."""
    value = snapshot.output(stack, key)
    if value is None:
        raise SkippedError(f"[{table}] is off")
    return value


def _unreachable(error: httpx2.HTTPError, url: str, advice: str) -> CheckResult:
    return warning(f"no answer ({type(error).__name__} at {urlsplit(url).hostname})", advice)


def check_front(snapshot: Snapshot) -> CheckResult:
    """Send a request without a key to the API in front of the endpoint."""
    url = _output(snapshot, "Front", "Url", "front")
    try:
        reply = snapshot.web.send("GET", f"{url.rstrip('/')}/health", signed=False)
    except httpx2.HTTPError as error:
        return _unreachable(
            error,
            url,
            "for a private API, run the doctor behind its VPC endpoints; otherwise "
            "compare your domain's DNS record with the output DomainTarget",
        )
    status, code = reply.status, _code(reply.body)
    if status in {401, 403} and code:
        return ok(f"without a key: {status} {code}", status=status, code=code)
    if status in {200, 401, 403}:
        return failed(
            f"without a key: {status} instead of 401 invalid_api_key",
            "deploy the front again: docs/front.md#api-keys",
            status=status,
        )
    return failed(f"without a key: {status}", "docs/runbook.md#front5xx", status=status)


def _code(body: bytes) -> str | None:
    """Return the code of an error in OpenAI's form, as the API's templates have it."""
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, TypeError, KeyError):
        return None


def check_batch(snapshot: Snapshot) -> CheckResult:
    """Read the newest execution of the state machine of batch jobs."""
    machine = _output(snapshot, "Batch", "StateMachineArn", "batch")
    answer = snapshot.aws.call(
        "stepfunctions", "list_executions", stateMachineArn=machine, maxResults=1
    )
    if not answer["executions"]:
        return ok("no job yet")
    status, name = answer["executions"][0]["status"], answer["executions"][0]["name"]
    summary = f"the newest job {name}: {status}"
    if status in {"RUNNING", "SUCCEEDED"}:
        return ok(summary, job=name, status=status)
    advice = f"embed batch status {name}; docs/runbook.md#batchfailed"
    return warning(summary, advice, job=name, status=status)


def check_index(snapshot: Snapshot) -> CheckResult:
    """Read the index's vector space, and compare it with the endpoint's."""
    arn = _output(snapshot, "Index", "IndexArn", "index")
    tags = snapshot.aws.call("s3vectors", "list_tags_for_resource", resourceArn=arn)["tags"]
    loaded, served = tags.get(SPACE_TAG), snapshot.served_space()
    if loaded is None:
        return warning("no vectors are loaded", "embed index load s3://BUCKET/JOB/")
    # The index may have fewer dimensions than a vector has by default.
    if loaded.rpartition("/")[0] != served.rpartition("/")[0]:
        return failed(
            f"loaded with vectors of {loaded}, but the endpoint serves {served}",
            "load the vectors of a job of the deployed model: docs/search.md",
        )
    return ok(f"loaded with vectors of {loaded}", vector_space=loaded)


def check_documents(snapshot: Snapshot) -> CheckResult:
    """Read whether the bucket sends events, and the documents that cannot be read."""
    source = _output(snapshot, "Index", "DocumentsUrl", "ingest")
    bucket = source.removeprefix("s3://").partition("/")[0]
    sent = snapshot.aws.call("s3", "get_bucket_notification_configuration", Bucket=bucket)
    if "EventBridgeConfiguration" not in sent:
        return failed(
            f"the bucket {bucket} sends no events to EventBridge",
            "turn them on: docs/search.md#documents",
        )
    queue = snapshot.aws.call(
        "sqs",
        "get_queue_attributes",
        QueueUrl=snapshot.output("Index", "DeadLettersUrl"),
        AttributeNames=["ApproximateNumberOfMessages"],
    )
    letters = int(queue["Attributes"]["ApproximateNumberOfMessages"])
    if letters:
        advice = "docs/runbook.md#documentsrefused"
        return warning(f"{letters} dead letters", advice, letters=letters)
    return ok(f"the bucket {bucket} sends events; no dead letters")


def check_server(snapshot: Snapshot) -> CheckResult:
    """Ask the server whether it is ready."""
    url = _output(snapshot, "Server", "Url", "server")
    try:
        status = snapshot.web.get(f"{url.rstrip('/')}/ready").status_code
    except httpx2.HTTPError as error:
        return _unreachable(
            error,
            url,
            "only hosts in `clients` reach the server, so run the doctor there; otherwise see "
            "docs/runbook.md#serverunhealthy",
        )
    if status == 200:
        return ok("ready")
    return failed(f"the response to GET /ready is {status}", "docs/runbook.md#serverunhealthy")
