"""Conversion of HTTP requests to events and of results to responses."""

import base64
import json

import pytest

from tools.local_endpoint.events import INTERNAL_SERVER_ERROR, to_event, to_response
from tools.local_endpoint.signature import SignedRequest


def event(*, target="/", body=b"", method="POST", **headers):
    request = SignedRequest(
        method=method,
        target=target,
        headers={"host": "abc.lambda-url.us-east-1.on.aws", **headers},
        body=body,
    )
    made = to_event(request, access_key="AKID", source_ip="10.0.0.1", request_id="id-1")
    return json.loads(made)


def test_an_event_has_the_caller_and_the_request():
    """The request context has the caller, the method, the path, the IP address and the ID."""
    context = event(target="/v1/embeddings?x=1", **{"user-agent": "curl"})["requestContext"]
    assert context["authorizer"]["iam"]["accessKey"] == "AKID"
    assert context["http"] == {
        "method": "POST",
        "path": "/v1/embeddings",
        "protocol": "HTTP/1.1",
        "sourceIp": "10.0.0.1",
        "userAgent": "curl",
    }
    assert context["requestId"] == "id-1"
    assert context["domainPrefix"] == "abc"


@pytest.mark.parametrize(
    ("headers", "is_text"),
    [
        ({"content-type": "application/json"}, True),
        ({"content-type": "application/json; charset=utf-8"}, True),
        ({"content-type": "text/csv"}, True),
        ({"content-type": "APPLICATION/XML"}, True),
        ({}, False),
        # The default content type of curl.
        ({"content-type": "application/x-www-form-urlencoded"}, False),
        ({"content-type": "application/octet-stream"}, False),
        ({"content-type": "application/json", "content-encoding": "gzip"}, False),
    ],
)
def test_bodies_of_text_are_strings(headers, is_text):
    """The content type decides; others are base64."""
    made = event(body="é".encode(), **headers)
    body = "é" if is_text else base64.b64encode("é".encode()).decode()
    assert (made["body"], made["isBase64Encoded"]) == (body, not is_text)


def test_the_query_is_decoded():
    """It is in the event as it is, too."""
    made = event(target="/p?a=1&b=%20&c")
    assert (made["rawPath"], made["rawQueryString"]) == ("/p", "a=1&b=%20&c")
    assert made["queryStringParameters"] == {"a": "1", "b": " ", "c": ""}


def test_an_event_does_not_contain_the_signature():
    """The Authorization header is removed."""
    assert "authorization" not in event(authorization="AWS4-HMAC-SHA256 x")["headers"]


@pytest.mark.parametrize(
    "result",
    [
        b"not json",
        b'{"statusCode": "x"}',
        b'{"statusCode": 200, "body": "%", "isBase64Encoded": true}',
        b'{"statusCode": 200, "body": 5}',
    ],
)
def test_an_invalid_result_is_a_502(result):
    """The response has no details, as in Lambda."""
    assert to_response(result) == INTERNAL_SERVER_ERROR
