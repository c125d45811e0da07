"""Converts HTTP requests to the events of a Function URL, and the function's results to HTTP.

Payload format version 2.0, without cookies and repeated parameters, which the endpoint ignores:
https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads
"""

import base64
import binascii
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl

from tools.local_endpoint.signature import SignedRequest

# The account ID of AWS's documentation.
_ACCOUNT = "123456789012"
_TEXT_TYPES = ("application/json", "application/javascript", "application/xml")


@dataclass(frozen=True, kw_only=True)
class LambdaResponse:
    """An HTTP response; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


# The response of a Function URL for every error of a function.
INTERNAL_SERVER_ERROR = LambdaResponse(
    status=502, headers={"content-type": "application/json"}, body=b"Internal Server Error"
)


def to_event(
    request: SignedRequest, *, access_key: str, source_ip: str, request_id: str | None = None
) -> bytes:
    """Return the event of a request, as JSON.

    The body is a string for textual content types, and base64 for all others. A body that is
    compressed or not valid UTF-8 is base64 too. Cookies, which the embedder does not read, stay
    among the headers.
    """
    path, _, query = request.target.partition("?")
    host = request.headers.get("host", "localhost")
    time = datetime.now(UTC)
    url_id = host.partition(".")[0].partition(":")[0]
    event: dict[str, object] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": query,
        "headers": {
            # A function does not receive the signature.
            **{name: value for name, value in request.headers.items() if name != "authorization"},
            "host": host,
            "x-amzn-trace-id": f"Root=1-{int(time.timestamp()):08x}-{uuid.uuid4().hex[:24]}",
            "x-forwarded-for": source_ip,
            "x-forwarded-port": "443",
            "x-forwarded-proto": "https",
        },
        "requestContext": {
            "accountId": _ACCOUNT,
            "apiId": url_id,
            "authentication": None,
            "authorizer": {
                "iam": {
                    "accessKey": access_key,
                    "accountId": _ACCOUNT,
                    "callerId": access_key,
                    "cognitoIdentity": None,
                    "principalOrgId": None,
                    "userArn": f"arn:aws:iam::{_ACCOUNT}:user/local",
                    "userId": access_key,
                }
            },
            "domainName": host,
            "domainPrefix": url_id,
            "http": {
                "method": request.method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": source_ip,
                "userAgent": request.headers.get("user-agent", ""),
            },
            "requestId": request_id or str(uuid.uuid4()),
            "routeKey": "$default",
            "stage": "$default",
            "time": time.strftime("%d/%b/%Y:%H:%M:%S +0000"),
            "timeEpoch": int(time.timestamp() * 1000),
        },
        "isBase64Encoded": False,
    }
    if query:
        event["queryStringParameters"] = dict(parse_qsl(query, keep_blank_values=True))
    if request.body:
        event["body"], event["isBase64Encoded"] = _body(request)
    return json.dumps(event, ensure_ascii=False).encode()


def to_response(result: bytes) -> LambdaResponse:
    """Return the HTTP response for a function's result, as Lambda does.

    An object with a `statusCode` is the response. Any other JSON value is the body of a 200. An
    invalid response, and a result that is not JSON, is a 502.
    """
    try:
        value = json.loads(result)
    except ValueError:
        return INTERNAL_SERVER_ERROR
    if not isinstance(value, dict) or "statusCode" not in value:
        return LambdaResponse(status=200, headers={"content-type": "application/json"}, body=result)
    try:
        body = value.get("body") or ""
        encoded = (
            base64.b64decode(body, validate=True) if value.get("isBase64Encoded") else body.encode()
        )
        own = {name.lower(): str(item) for name, item in (value.get("headers") or {}).items()}
        headers = {"content-type": "application/json", **own}
        return LambdaResponse(status=int(value["statusCode"]), headers=headers, body=encoded)
    except (AttributeError, TypeError, ValueError, binascii.Error):
        return INTERNAL_SERVER_ERROR


def _body(request: SignedRequest) -> tuple[str, bool]:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    textual = content_type.startswith("text/") or content_type in _TEXT_TYPES
    if textual and "content-encoding" not in request.headers:
        try:
            return request.body.decode("utf-8"), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(request.body).decode(), True
