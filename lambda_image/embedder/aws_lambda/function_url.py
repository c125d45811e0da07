"""Lambda Function URL events, payload format 2.0, to and from requests and responses.

https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads

Events of a REST API, payload format 1.0, are first brought into this format.
"""

import binascii
from collections.abc import Mapping
from typing import Any

from embedder.core.errors import MalformedBodyError, NotAnEventError
from embedder.http.http_types import MAX_REQUEST_BYTES, Request, Response, usable_id


def to_payload_v2(event: Any) -> Any:
    """Return an event of payload format 1.0 as one of format 2.0, and anything else as it is."""
    if not isinstance(event, dict) or "httpMethod" not in event:
        return event
    from embedder.aws_lambda.rest_api import to_function_url_event  # noqa: PLC0415 - on demand

    return to_function_url_event(event)


def is_event(event: object) -> bool:
    """Return whether this is an event of payload format 2.0."""
    if not isinstance(event, dict) or not isinstance(event.get("rawPath"), str):
        return False
    context = event.get("requestContext")
    http = context.get("http") if isinstance(context, dict) else None
    return isinstance(http, dict) and isinstance(http.get("method"), str)


def request_from_event(
    event: Mapping[str, Any], *, request_id: str = "", deadline: float | None = None
) -> Request:
    """Read an event; without a `request_id`, it has the event's own.

    Raises:
        NotAnEventError: if it is not an event of payload format 2.0.
        MalformedBodyError: if the body is not base64 although the event says so, not UTF-8, or in
            an encoding that is not allowed.
        BodyTooLargeError: if a body in gzip is over the limit once it is inflated.
    """
    if not is_event(event):
        raise NotAnEventError(
            "The function was invoked with something else than an HTTP request. Allowed: a "
            'Function URL\'s event, payload format 2.0, with "rawPath" and '
            '"requestContext.http.method", or the event of a REST API, payload format 1.0, with '
            '"httpMethod", "path" and "requestContext".'
        )
    context = event["requestContext"]
    headers = _headers(event.get("headers"))
    return Request(
        method=context["http"]["method"].upper(),
        path=event["rawPath"] or "/",
        headers=headers,
        body=_inflated(_body(event), headers.get("content-encoding", ""), event),
        id=request_id or usable_id(context.get("requestId")),
        deadline=deadline,
        caller=_caller(context),
    )


def response_to_event(response: Response) -> dict[str, Any]:
    """Return the value that the Function URL, or a REST API, turns into the HTTP response."""
    encoded = "content-encoding" in response.headers
    return {
        "statusCode": response.status,
        "headers": dict(response.headers),
        "body": (
            binascii.b2a_base64(response.body, newline=False) if encoded else response.body
        ).decode(),
        "isBase64Encoded": encoded,
    }


def _inflated(body: bytes, encoding: str, event: Mapping[str, Any]) -> bytes:
    """Undo the request's `Content-Encoding`, which a Function URL leaves as it is."""
    encoding = encoding.strip().lower()
    if encoding in {"", "identity"}:
        return body
    if encoding == "gzip" and not event.get("isBase64Encoded"):
        # As text the bytes are already lost.
        raise MalformedBodyError(
            "A gzip body must arrive base64-encoded in the event, and this one arrived as text. "
            'Send it with "content-type: application/octet-stream", or without gzip.'
        )
    from embedder.http.compression import decoded  # noqa: PLC0415 - on demand

    return decoded(body, encoding, MAX_REQUEST_BYTES)


def _headers(headers: object) -> dict[str, str]:
    if not isinstance(headers, dict):
        return {}
    return {name.lower(): value for name, value in headers.items() if isinstance(value, str)}


def _caller(context: Mapping[str, Any]) -> str | None:
    authorizer = context.get("authorizer")
    iam = authorizer.get("iam") if isinstance(authorizer, dict) else None
    arn = iam.get("userArn") if isinstance(iam, dict) else None
    return arn if isinstance(arn, str) else None


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
            f"The body is not valid Unicode: found a lone surrogate at character {error.start}."
        ) from error
