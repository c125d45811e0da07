"""HTTP to payload 2.0 and back."""

import base64
import json

import pytest

from local_function_url.events import INTERNAL_SERVER_ERROR, to_answer, to_event
from local_function_url.signature import Caller, SignedRequest


def event(*, target="/", body=b"", method="POST", **headers):
    request = SignedRequest(
        method=method,
        target=target,
        headers={"host": "abc.lambda-url.us-east-1.on.aws", **headers},
        body=body,
    )
    caller = Caller(access_key="AKID", session_token=None)
    return json.loads(to_event(request, caller=caller, source_ip="10.0.0.1", request_id="id-1"))


def test_an_event_says_who_called_and_what_for():
    """The request's context carries caller, method, path, address and id."""
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
def test_textual_bodies_travel_as_text(content_type):
    """What is text by its type is not encoded."""
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
def test_other_bodies_travel_in_base64(headers):
    """Everything else is encoded, curl's default type among it."""
    made = event(body=b'{"text": 1}', **headers)
    assert base64.b64decode(made["body"]) == b'{"text": 1}'
    assert made["isBase64Encoded"] is True


def test_text_that_is_not_utf8_loses_no_byte():
    """A body that is text by type only travels in base64."""
    made = event(body=b"\xff\xfe", **{"content-type": "text/plain"})
    assert base64.b64decode(made["body"]) == b"\xff\xfe"


def test_no_body_no_field():
    """Without a body the event has none."""
    assert "body" not in event(method="GET")


def test_query_and_cookies_have_their_fields():
    """Queries are decoded and joined; cookies leave the headers."""
    made = event(target="/p?a=1&a=2&b=%20&c", cookie="x=1; y=2")
    assert made["rawPath"] == "/p"
    assert made["rawQueryString"] == "a=1&a=2&b=%20&c"
    assert made["queryStringParameters"] == {"a": "1,2", "b": " ", "c": ""}
    assert made["cookies"] == ["x=1", "y=2"]
    assert "cookie" not in made["headers"]


def test_the_signature_stays_outside():
    """A function never sees the authorization header."""
    assert "authorization" not in event(authorization="AWS4-HMAC-SHA256 x")["headers"]


def test_an_answer_with_a_status_is_the_response():
    """Status, headers, cookies and decoded body are the function's own."""
    result = {
        "statusCode": 201,
        "headers": {"X-A": 1},
        "cookies": ["a=b"],
        "body": "AAE=",
        "isBase64Encoded": True,
    }
    answer = to_answer(json.dumps(result).encode())
    assert (answer.status, answer.cookies, answer.body) == (201, ("a=b",), b"\x00\x01")
    assert answer.headers == {"content-type": "application/json", "x-a": "1"}


def test_any_other_json_is_a_body():
    """A value without a status is answered as JSON with 200."""
    answer = to_answer(b'{"a": 1}')
    assert (answer.status, answer.body) == (200, b'{"a": 1}')


@pytest.mark.parametrize(
    "result",
    [
        b"not json",
        b'{"statusCode": "x"}',
        b'{"statusCode": 200, "body": "%", "isBase64Encoded": true}',
        b'{"statusCode": 200, "body": 5}',
    ],
)
def test_what_is_no_answer_is_a_fault(result):
    """Lambda says 502 and no more."""
    assert to_answer(result) == INTERNAL_SERVER_ERROR
