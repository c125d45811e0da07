"""Lambda Function URL events, payload format 2.0, to and from requests and responses.

https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads
"""

import binascii
from collections.abc import Mapping
from typing import Any

from embedder.errors import MalformedBodyError, NotAnEventError
from embedder.http import Request, Response

__all__ = ["is_event", "request_from_event", "response_to_event"]


def is_event(event: object) -> bool:
    """Tell whether this is an event of payload format 2.0."""
    if not isinstance(event, dict) or not isinstance(event.get("rawPath"), str):
        return False
    context = event.get("requestContext")
    http = context.get("http") if isinstance(context, dict) else None
    return isinstance(http, dict) and isinstance(http.get("method"), str)


def request_from_event(
    event: Mapping[str, Any], *, request_id: str = "", deadline: float | None = None
) -> Request:
    """Read an event.

    Args:
        event: what Lambda invoked the function with.
        request_id: the invocation's id; the event's own if empty.
        deadline: see `Request`.

    Raises:
        NotAnEventError: if it is no event of payload format 2.0.
        MalformedBodyError: if the body is not base64 although it is said to be, or not UTF-8.
    """
    if not is_event(event):
        raise NotAnEventError(
            "The function was invoked with something else than an HTTP request. Allowed: a "
            'Function URL\'s event, payload format 2.0, with "rawPath" and '
            '"requestContext.http.method".'
        )
    context = event["requestContext"]
    return Request(
        method=context["http"]["method"].upper(),
        path=event["rawPath"] or "/",
        query=_string(event.get("rawQueryString")),
        headers=_headers(event.get("headers")),
        body=_body(event),
        id=request_id or _id(context.get("requestId")),
        deadline=deadline,
    )


def response_to_event(response: Response) -> dict[str, Any]:
    """Write what the Function URL turns into the HTTP response."""
    return {
        "statusCode": response.status,
        "headers": dict(response.headers),
        "body": response.body.decode(),
        "isBase64Encoded": False,
    }


def _headers(headers: object) -> dict[str, str]:
    if not isinstance(headers, dict):
        return {}
    return {name.lower(): value for name, value in headers.items() if isinstance(value, str)}


def _id(value: object) -> str:
    # Goes into a header and into the log. Lambda's are like this; a hand-made event's may not be.
    text = _string(value)
    return text if text.isascii() and text.isprintable() and len(text) <= 128 else ""


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _body(event: Mapping[str, Any]) -> bytes:
    body = event.get("body")
    if body is None:
        return b""
    if not isinstance(body, str):
        raise MalformedBodyError('The event\'s "body" must be a string.')
    if event.get("isBase64Encoded"):
        try:
            return binascii.a2b_base64(body, strict_mode=True)
        except ValueError as error:
            raise MalformedBodyError(
                'The event says "isBase64Encoded", and its body is not base64.'
            ) from error
    try:
        return body.encode()
    except UnicodeEncodeError as error:
        raise MalformedBodyError(
            f"The body is not valid Unicode: a lone surrogate stands at character {error.start}."
        ) from error
