"""Events of API Gateway's REST APIs, payload format 1.0, as those of a Function URL.

https://docs.aws.amazon.com/apigateway/latest/developerguide/set-up-lambda-proxy-integrations.html

Imported on demand: behind a Function URL no such event arrives. The response has the same form in
both formats.
"""

from collections.abc import Mapping
from typing import Any

#: API Gateway undoes these encodings of a request, and answers others with a 415.
_UNDONE = frozenset({"gzip", "deflate"})
#: The first three bytes of every gzip stream, in base64.
_GZIP = "H4sI"


def to_function_url_event(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an event of payload format 1.0 as one of 2.0, and anything else as it is."""
    method, path, context = (event.get(key) for key in ("httpMethod", "path", "requestContext"))
    if not (isinstance(method, str) and isinstance(path, str) and isinstance(context, dict)):
        return event
    headers = _headers(event)
    body, is_base64 = event.get("body"), bool(event.get("isBase64Encoded"))
    if not is_base64:
        # The API treats this content type as text, so it would pass an answer in gzip on in base64.
        headers.pop("accept-encoding", None)
    still_gzip = is_base64 and isinstance(body, str) and body.startswith(_GZIP)
    if not still_gzip and headers.get("content-encoding", "").strip().lower() in _UNDONE:
        del headers["content-encoding"]
    return {
        "rawPath": _path(event, path),
        "headers": headers,
        "requestContext": {"http": {"method": method}, "requestId": context.get("requestId")},
        "body": body,
        "isBase64Encoded": is_base64,
    }


def _path(event: Mapping[str, Any], path: str) -> str:
    """Return what a greedy path variable such as `{proxy+}` matched, else the whole path.

    `path` also has the base path of a custom domain's mapping, and `requestContext.path` the stage.
    """
    resource, variables = event.get("resource"), event.get("pathParameters")
    if resource == "/":
        return "/"
    if isinstance(resource, str) and resource.endswith("+}") and isinstance(variables, dict):
        matched = variables.get(resource.rpartition("{")[2][:-2])
        if isinstance(matched, str):
            return f"/{matched}"
    return path


def _headers(event: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers; of one that came more than once, all values, as a Function URL does."""
    joined: dict[str, str] = {}
    for key in ("headers", "multiValueHeaders"):
        headers = event.get(key)
        for name, value in headers.items() if isinstance(headers, dict) else ():
            values = [text for text in (value if isinstance(value, list) else [value]) if text]
            if values and all(isinstance(text, str) for text in values):
                joined[str(name).lower()] = ",".join(values)
    return joined
