"""The parts that an environment may have: API in front, batch jobs, index, documents, server."""

import json
from urllib.parse import urlsplit

import httpx

from embedding_client._doctor.results import CheckResult, SkippedError, failed, ok, warning
from embedding_client._doctor.snapshot import Snapshot
from embedding_client._index import SPACE_TAG


def _output(snapshot: Snapshot, part: str, key: str, table: str) -> str:
    """Return an output of a part's stack, or skip the check of a table that is off."""
    found = snapshot.output(part, key)
    if found is None:
        raise SkippedError(f"[{table}] is off")
    return found


def _unreachable(error: httpx.HTTPError, url: str, advice: str) -> CheckResult:
    return warning(f"no answer ({type(error).__name__} at {urlsplit(url).hostname})", advice)


def check_front(snapshot: Snapshot) -> CheckResult:
    """Send a request without a key to the API in front of the endpoint."""
    url = _output(snapshot, "Front", "Url", "front")
    try:
        reply = snapshot.probes.web.send("GET", f"{url.rstrip('/')}/health", signed=False)
    except httpx.HTTPError as error:
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
            "deploy the front again: docs/front.md#keys",
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
    found = f"the newest job {name}: {status}"
    if status in {"RUNNING", "SUCCEEDED"}:
        return ok(found, job=name, status=status)
    advice = f"embed batch status {name}; docs/runbook.md#batchfailed"
    return warning(found, advice, job=name, status=status)


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
        status = snapshot.probes.web.get(f"{url.rstrip('/')}/ready").status_code
    except httpx.HTTPError as error:
        return _unreachable(
            error,
            url,
            "only hosts in `clients` reach the server, so run the doctor there; otherwise see "
            "docs/runbook.md#serverunhealthy",
        )
    if status == 200:
        return ok("ready")
    return failed(f"the response to GET /ready is {status}", "docs/runbook.md#serverunhealthy")
