"""The parts that an environment may have: API in front, batch jobs, index, documents, server."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import httpx

from embedding_client._doctor.probes import Reply
from embedding_client._doctor.results import CheckResult, SkippedError, failed, ok, warning
from embedding_client._doctor.snapshot import Snapshot
from embedding_client._index import SPACE_TAG


def check_front(snapshot: Snapshot) -> CheckResult:
    """Send a request without a key to the API in front of the endpoint."""
    url = snapshot.output("Front", "Url")
    if url is None:
        raise SkippedError("[front] is off")
    try:
        reply = snapshot.probes.web.send("GET", f"{url.rstrip('/')}/health", signed=False)
    except httpx.HTTPError as error:
        return front_result(f"{type(error).__name__} at {urlsplit(url).hostname}")
    return front_result(reply)


def front_result(reply: Reply | str) -> CheckResult:
    """Decide on the answer to a request without a key, or the reason why there is none."""
    if isinstance(reply, str):
        return warning(
            f"no answer ({reply})",
            "for a private API, run the doctor behind its VPC endpoints; otherwise "
            "compare your domain's DNS record with the output DomainTarget",
        )
    code = _code(reply.body)
    if reply.status in {401, 403} and code:
        return ok(f"without a key: {reply.status} {code}", status=reply.status, code=code)
    if reply.status in {200, 401, 403}:
        return failed(
            f"without a key: {reply.status} instead of 401 invalid_api_key",
            "deploy the front again: docs/front.md#keys",
            status=reply.status,
        )
    return failed(f"without a key: {reply.status}", "docs/runbook.md#front5xx", status=reply.status)


def _code(body: bytes) -> str | None:
    """Return the code of an error in OpenAI's form, as the API's templates have it."""
    try:
        return str(json.loads(body)["error"]["code"])
    except (ValueError, TypeError, KeyError):
        return None


def check_batch(snapshot: Snapshot) -> CheckResult:
    """Read the newest execution of the state machine of batch jobs."""
    machine = snapshot.output("Batch", "StateMachineArn")
    if machine is None:
        raise SkippedError("[batch] is off")
    answer = snapshot.aws.call(
        "stepfunctions", "list_executions", stateMachineArn=machine, maxResults=1
    )
    return executions_result(answer["executions"])


def executions_result(executions: Sequence[Mapping[str, Any]]) -> CheckResult:
    """Decide on the newest execution."""
    if not executions:
        return ok("no job yet")
    status, name = executions[0]["status"], executions[0]["name"]
    found = f"the newest job {name}: {status}"
    if status in {"RUNNING", "SUCCEEDED"}:
        return ok(found, job=name, status=status)
    return warning(
        found, f"embed batch status {name}; docs/runbook.md#batchfailed", job=name, status=status
    )


def check_index(snapshot: Snapshot) -> CheckResult:
    """Read the index's vector space, and compare it with the endpoint's."""
    arn = snapshot.output("Index", "IndexArn")
    if arn is None:
        raise SkippedError("[index] is off")
    tags = snapshot.aws.call("s3vectors", "list_tags_for_resource", resourceArn=arn)["tags"]
    return index_result(tags.get(SPACE_TAG), snapshot.served_space())


def index_result(loaded: str | None, served: str) -> CheckResult:
    """Decide on the vector space of the loaded vectors."""
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
    source = snapshot.output("Index", "DocumentsUrl")
    if source is None:
        raise SkippedError("[ingest] is off")
    bucket = source.removeprefix("s3://").partition("/")[0]
    sent = snapshot.aws.call("s3", "get_bucket_notification_configuration", Bucket=bucket)
    letters = snapshot.aws.call(
        "sqs",
        "get_queue_attributes",
        QueueUrl=snapshot.output("Index", "DeadLettersUrl"),
        AttributeNames=["ApproximateNumberOfMessages"],
    )["Attributes"]["ApproximateNumberOfMessages"]
    return documents_result(bucket, sends="EventBridgeConfiguration" in sent, letters=int(letters))


def documents_result(bucket: str, *, sends: bool, letters: int) -> CheckResult:
    """Decide on the events of the bucket and the number of dead letters."""
    if not sends:
        return failed(
            f"the bucket {bucket} sends no events to EventBridge",
            "turn them on: docs/search.md#documents",
        )
    if letters:
        return warning(
            f"{letters} dead letters", "docs/runbook.md#documentsrefused", letters=letters
        )
    return ok(f"the bucket {bucket} sends events; no dead letters")


def check_server(snapshot: Snapshot) -> CheckResult:
    """Ask the server whether it is ready."""
    url = snapshot.output("Server", "Url")
    if url is None:
        raise SkippedError("[server] is off")
    try:
        status = snapshot.probes.web.get(f"{url.rstrip('/')}/ready").status_code
    except httpx.HTTPError as error:
        return server_result(None, f"{type(error).__name__} at {urlsplit(url).hostname}")
    return server_result(status, "")


def server_result(status: int | None, reason: str) -> CheckResult:
    """Decide on the answer to `GET /ready`."""
    if status == 200:
        return ok("ready")
    if status is None:
        return warning(
            f"no answer ({reason})",
            "only hosts in `clients` reach the server, so run the doctor there; otherwise see "
            "docs/runbook.md#serverunhealthy",
        )
    return failed(f"the response to GET /ready is {status}", "docs/runbook.md#serverunhealthy")
