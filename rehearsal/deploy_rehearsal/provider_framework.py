"""The CDK's provider framework, by its documented contract.

Its own function is JavaScript that needs AWS's SDK from Lambda's runtime. What it does between
CloudFormation and a custom resource's handler is little: it invokes the handler and puts its
answer, or its error, where CloudFormation waits. "Provider Framework" in
https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.custom_resources-readme.html
"""

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

__all__ = ["HANDLER", "relay"]

#: The handler of the framework's function.
HANDLER = "framework.onEvent"
#: The physical id of a resource whose Create failed: its Delete never reaches the handler.
_CREATE_FAILED = "AWSCDK::CustomResourceProviderFramework::CREATE_FAILED"


def relay(event: Mapping[str, Any], client: Any, handler: str) -> None:
    """Have a custom resource's handler answer an event, and tell CloudFormation what it answered.

    Args:
        event: CloudFormation's event.
        client: A client of Lambda with the role of the framework's function.
        handler: The ARN of the handler's function.
    """
    physical = event.get("PhysicalResourceId")
    if event["RequestType"] == "Delete" and physical == _CREATE_FAILED:
        _respond(event, Status="SUCCESS", PhysicalResourceId=_CREATE_FAILED)
        return
    try:
        response = client.invoke(
            FunctionName=handler, Payload=json.dumps({**event, "ResponseURL": "..."})
        )
        answer = json.loads(response["Payload"].read()) or {}
        failed = "FunctionError" in response
        reason = str(answer.get("errorMessage")) if failed else ""
    except client.exceptions.ClientError as error:
        answer, failed, reason = {}, True, str(error)
    if failed:
        created = event["RequestType"] == "Create"
        given = _CREATE_FAILED if created else physical
        _respond(event, Status="FAILED", PhysicalResourceId=given, Reason=reason)
        return
    _respond(
        event,
        Status="SUCCESS",
        PhysicalResourceId=answer.get("PhysicalResourceId") or physical or event["RequestId"],
        Data=answer.get("Data", {}),
    )


def _respond(event: Mapping[str, Any], **response: Any) -> None:
    same = {name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")}
    body = json.dumps({**same, **response}).encode()
    request = urllib.request.Request(event["ResponseURL"], body, method="PUT")
    with urllib.request.urlopen(request, timeout=30):
        pass
