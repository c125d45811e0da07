"""The CDK's provider framework, implemented from its documented contract.

The framework's own function is JavaScript and needs the AWS SDK of Lambda's runtime. It invokes the
handler of a custom resource and sends the handler's answer, or its error, to CloudFormation's
response URL. See "Provider Framework" in
https://docs.aws.amazon.com/cdk/api/v2/docs/aws-cdk-lib.custom_resources-readme.html
"""

import json
import urllib.request
from collections.abc import Mapping
from typing import Any

__all__ = ["HANDLER", "relay"]

#: The handler of the framework's function.
HANDLER = "framework.onEvent"
#: The physical id of a resource whose Create failed. Its Delete does not invoke the handler.
_CREATE_FAILED = "AWSCDK::CustomResourceProviderFramework::CREATE_FAILED"


def relay(event: Mapping[str, Any], client: Any, handler: str) -> None:
    """Invoke a custom resource's handler, and send its answer to CloudFormation.

    Args:
        event: CloudFormation's event.
        client: A Lambda client with the role of the framework's function.
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
