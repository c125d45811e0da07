"""Lambda's Invoke at the local Function URL, as far as a caller of one function needs it.

https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
"""

import json
import re

from tools.local_endpoint.events import Response
from tools.local_endpoint.function import FunctionError, Runtime

__all__ = ["invoke", "is_invocation"]

_PATH = re.compile(r"/2015-03-31/functions/[^/?]+/invocations(\?.*)?")


def is_invocation(method: str, target: str) -> bool:
    """Return whether a request is one to Invoke, whatever the function's name."""
    return method == "POST" and _PATH.fullmatch(target) is not None


def invoke(runtime: Runtime, event: bytes) -> Response:
    """Pass an event to the function. Return its result, or its error with Lambda's header."""
    json_type = {"content-type": "application/json"}
    try:
        json.loads(event or b"null")
    except ValueError:
        return Response(
            status=400,
            headers={**json_type, "x-amzn-errortype": "InvalidRequestContentException"},
            body=b'{"Type":"User","message":"Could not parse request body into json"}',
        )
    executed = {**json_type, "x-amz-executed-version": "$LATEST"}
    try:
        return Response(status=200, headers=executed, body=runtime.invoke(event or b"null"))
    except FunctionError as error:
        return Response(
            status=200,
            headers={**executed, "x-amz-function-error": "Unhandled"},
            body=_payload(str(error)),
        )


def _payload(reason: str) -> bytes:
    """Return the runtime's own error, or the reason in its form."""
    try:
        if isinstance(json.loads(reason), dict):
            return reason.encode()
    except ValueError:
        pass
    return json.dumps({"errorType": "Sandbox.Error", "errorMessage": reason}).encode()
