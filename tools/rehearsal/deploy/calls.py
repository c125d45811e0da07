"""Requests to the deployed Function URL, signed, and to other addresses of the emulated AWS."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials

from tools.rehearsal.deploy.emulator import Credentials, Emulator

__all__ = ["Response", "request", "send"]


@dataclass(frozen=True, kw_only=True)
class Response:
    """An HTTP response."""

    status: int
    body: bytes

    def json(self) -> Any:
        """Parse the body as JSON."""
        return json.loads(self.body)


def send(
    aws: Emulator,
    url: str,
    body: dict[str, Any],
    *,
    who: Credentials | None,
    tampered: bool = False,
    path: str = "/",
    method: str = "POST",
) -> Response:
    """Send a request to a Function URL of the emulated AWS.

    Args:
        aws: The emulated AWS, which receives the request instead of the URL's host.
        url: The deployed Function URL.
        body: The JSON body.
        who: The credentials that sign the request; unsigned if None.
        tampered: Whether the body is changed after signing.
        path: The path below the URL.
        method: The HTTP method.
    """
    host = urlsplit(url).netloc
    payload = json.dumps(body).encode() if method == "POST" else b""
    signed = AWSRequest(
        method, f"https://{host}{path}", data=payload, headers={"Content-Type": "application/json"}
    )
    if who is not None:
        keys = BotocoreCredentials(who.key, who.secret, who.token)
        SigV4Auth(keys, "lambda", aws.region).add_auth(signed)
    headers = {**dict(signed.headers), "Host": host}
    sent = payload.replace(b"e", b"a") if tampered else payload
    return _sent(aws, method, path, sent, headers)


def request(
    aws: Emulator, path: str, body: dict[str, Any], *, headers: Mapping[str, str]
) -> Response:
    """Post JSON to a path of the emulated AWS, unsigned."""
    return _sent(aws, "POST", path, json.dumps(body).encode(), headers)


def _sent(
    aws: Emulator, method: str, path: str, body: bytes, headers: Mapping[str, str]
) -> Response:
    connection = http.client.HTTPConnection("127.0.0.1", aws.port, timeout=120)
    try:
        connection.request(method, path, body, dict(headers))
        response = connection.getresponse()
        return Response(status=response.status, body=response.read())
    finally:
        connection.close()
