"""Conversion of HTTP requests to events and of results to responses."""

import base64
import json

import pytest

from tools.local_endpoint.events import INTERNAL_SERVER_ERROR, to_event, to_response
from tools.local_endpoint.signature import Caller, SignedRequest


def event(*, target="/", body=b"", method="POST", **headers):
    request = SignedRequest(
        method=method,
        target=target,
        headers={"host": "abc.lambda-url.us-east-1.on.aws", **headers},
        body=body,
    )
    caller = Caller(access_key="AKID", session_token=None)
    return json.loads(to_event(request, caller=caller, source_ip="10.0.0.1", request_id="id-1"))


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
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "text/plain",
        "text/csv",
        "APPLICATION/XML",
    ],
)
def test_textual_bodies_are_strings(content_type):
    """The content type decides."""
    made = event(body="é".encode(), **{"content-type": content_type})
    assert (made["body"], made["isBase64Encoded"]) == ("é", False)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/octet-stream"},
        {"content-type": "application/json", "content-encoding": "gzip"},
    ],
)
def test_other_bodies_are_base64(headers):
    """This includes the default content type of curl."""
    made = event(body=b'{"text": 1}', **headers)
    assert base64.b64decode(made["body"]) == b'{"text": 1}'
    assert made["isBase64Encoded"] is True


def test_query_and_cookies_have_separate_fields():
    """Parameters are decoded and joined. Cookies are not among the headers."""
    made = event(target="/p?a=1&a=2&b=%20&c", cookie="x=1; y=2")
    assert made["rawPath"] == "/p"
    assert made["rawQueryString"] == "a=1&a=2&b=%20&c"
    assert made["queryStringParameters"] == {"a": "1,2", "b": " ", "c": ""}
    assert made["cookies"] == ["x=1", "y=2"]
    assert "cookie" not in made["headers"]


def test_an_event_does_not_contain_the_signature():
    """The Authorization header is removed."""
    assert "authorization" not in event(authorization="AWS4-HMAC-SHA256 x")["headers"]


def test_a_result_with_a_status_is_the_response():
    """It has the status, headers, cookies and decoded body of the result."""
    result = {
        "statusCode": 201,
        "headers": {"X-A": 1},
        "cookies": ["a=b"],
        "body": "AAE=",
        "isBase64Encoded": True,
    }
    response = to_response(json.dumps(result).encode())
    assert (response.status, response.cookies, response.body) == (201, ("a=b",), b"\x00\x01")
    assert response.headers == {"content-type": "application/json", "x-a": "1"}


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
