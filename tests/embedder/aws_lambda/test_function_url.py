"""Conversion of events and responses in payload formats 2.0 and 1.0.

Tests with the fixture `sent` run for both; `test_rest_api.py` has what differs.
"""

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.aws_lambda.function_url import request_from_event, response_to_event, to_payload_v2
from embedder.core.errors import BodyTooLargeError, MalformedBodyError, NotAnEventError
from embedder.http.http_types import MAX_REQUEST_BYTES, Request, Response
from tests.embedder.rest_api_event import rest_api_event

#: The event from AWS's documentation, reduced to the fields that are read and a few others.
EVENT: dict[str, Any] = {
    "version": "2.0",
    "routeKey": "$default",
    "rawPath": "/v1/embeddings",
    "rawQueryString": "parameter1=value1&parameter1=value2",
    "headers": {"Content-Type": "application/json", "x-amzn-trace-id": "Root=1-2"},
    "queryStringParameters": {"parameter1": "value1,value2"},
    "requestContext": {
        "accountId": "123456789012",
        "domainName": "abc.lambda-url.us-west-2.on.aws",
        "http": {"method": "post", "path": "/v1/embeddings", "sourceIp": "192.0.2.1"},
        "requestId": "e1506fd5-9e7b-434f-bd42-4f8fa224b599",
        "timeEpoch": 1583348638390,
    },
    "body": '{"input": "Grüße"}',
    "isBase64Encoded": False,
}


#: Sends the request of an event, and returns it as the embedder reads it.
Sent = Callable[..., Request]


@pytest.fixture(params=["2.0", "1.0"])
def sent(request: pytest.FixtureRequest) -> Sent:
    """Return a function that sends an event's request in one of the payload formats."""
    as_sent: Callable[..., dict[str, Any]] = dict if request.param == "2.0" else rest_api_event
    return lambda event, **options: request_from_event(to_payload_v2(as_sent(event)), **options)


def test_an_event_becomes_a_request(sent):
    """The method becomes upper case and the header names lower case; the rest is unchanged."""
    request = sent(EVENT)
    assert request.method == "POST"
    assert request.path == "/v1/embeddings"
    assert request.headers == {"content-type": "application/json", "x-amzn-trace-id": "Root=1-2"}
    assert request.body == '{"input": "Grüße"}'.encode()
    assert request.id == "e1506fd5-9e7b-434f-bd42-4f8fa224b599"
    # Lambda's own report has the id of the invocation, so the log must have it.
    assert sent(EVENT, request_id="invocation").id == "invocation"


@pytest.mark.parametrize("sent_id", ["x", "x" * 128, "", 7, None, "a\nb", "ü", "\ud800", "x" * 129])
def test_an_id_of_up_to_128_characters_is_kept(sent, sent_id):
    """Any other is dropped, because ids are written to a header and to the log."""
    context = {**EVENT["requestContext"], "requestId": sent_id}
    expected_id = sent_id if sent_id in {"x", "x" * 128} else ""
    assert sent({**EVENT, "requestContext": context}).id == expected_id


def test_only_path_and_method_are_needed(sent):
    """All other fields may be absent, and the body null or empty."""
    request = sent({"rawPath": "", "requestContext": {"http": {"method": "GET"}}})
    assert (request.method, request.path, request.body) == ("GET", "/", b"")
    assert sent({**EVENT, "body": None}).body == sent({**EVENT, "body": ""}).body == b""
    assert sent({**EVENT, "headers": None}).headers == {}
    assert sent({**EVENT, "headers": {"A": "1", "b": None}}).headers == {"a": "1"}


@given(st.binary(max_size=200))
def test_a_base64_body_becomes_its_bytes(body):
    """Lambda sends binary bodies as base64."""
    event = {**EVENT, "body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    assert request_from_event(event).body == body
    assert request_from_event(to_payload_v2(rest_api_event(event))).body == body


BAD_BODIES = [
    *((body, True, "is not base64") for body in ("a", "====", "aGk=\n", "aGk", "ä", "aGk=x")),
    # JSON can contain a lone surrogate, but UTF-8 cannot.
    ('{"text":"\ud800"}', False, "found a lone surrogate at character 9"),
    ({"text": "hello"}, False, '"body" must be a string'),
]


@pytest.mark.parametrize(("body", "is_base64", "message"), BAD_BODIES)
def test_a_body_that_cannot_be_read_is_refused(sent, body, is_base64, message):
    """A Function URL never sends one, but a handwritten event may have it."""
    with pytest.raises(MalformedBodyError, match=message):
        sent({**EVENT, "body": body, "isBase64Encoded": is_base64})


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        "hello",
        {},
        {"rawPath": 1, "requestContext": {"http": {"method": "GET"}}},
        {"rawPath": "/"},
        {"rawPath": "/", "requestContext": {"http": None}},
        {"rawPath": "/", "requestContext": {"http": {"method": 1}}},
        {"httpMethod": "GET", "path": "/"},
        {"httpMethod": 1, "path": "/", "requestContext": {}},
        {"httpMethod": "GET", "path": None, "requestContext": {}},
        {"httpMethod": "GET", "path": "/", "requestContext": []},
    ],
)
def test_what_is_no_event_is_refused(event):
    """Direct invocations and scheduled events get an error with the allowed formats."""
    with pytest.raises(NotAnEventError, match=r"payload format 2\.0.* payload format 1\.0"):
        request_from_event(to_payload_v2(event))


def gzip_event(body: bytes, **changes: Any) -> dict[str, Any]:
    return {
        **EVENT,
        "headers": {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
        **changes,
    }


def test_a_gzip_body_is_inflated(sent):
    """It arrives in base64, as all binary bodies do; inflated, it has the limit of every body."""
    assert sent(gzip_event(gzip.compress(b'{"text": "a"}'))).body == b'{"text": "a"}'
    bomb = gzip.compress(bytes(MAX_REQUEST_BYTES + 1))
    with pytest.raises(BodyTooLargeError, match=f"more than {MAX_REQUEST_BYTES} bytes"):
        sent(gzip_event(bomb))


def test_a_gzip_body_that_came_as_text_is_refused():
    """The bytes are lost in that case, and the error explains how to send gzip."""
    event = {**gzip_event(b""), "body": "\x1f\ufffd", "isBase64Encoded": False}
    with pytest.raises(MalformedBodyError, match=r"must arrive base64-encoded .*octet-stream"):
        request_from_event(event)


@pytest.mark.parametrize(
    ("encoding", "found"), [("br", '"br"'), ("gzip, gzip", "a string of 10"), ("zstd", '"zstd"')]
)
def test_another_encoding_is_refused_by_name(sent, encoding, found):
    """The error lists the allowed encodings and the value found."""
    with pytest.raises(MalformedBodyError, match=f"absent, or gzip, or identity; found {found}"):
        sent(gzip_event(b"", headers={"content-encoding": encoding}))


@pytest.mark.parametrize("encoding", ["identity", "", " Identity "])
def test_no_encoding_is_none(sent, encoding):
    """A body with the encoding `identity` or an empty one is not changed."""
    assert sent({**EVENT, "headers": {"content-encoding": encoding}}).body == sent(EVENT).body


def test_a_response_becomes_what_the_function_url_wants():
    """The event has the body as text and the headers as an object, and can be written as JSON."""
    event = response_to_event(Response(404, "ü".encode(), {"x-request-id": "1"}))
    assert json.loads(json.dumps(event)) == {
        "statusCode": 404,
        "headers": {"x-request-id": "1"},
        "body": "ü",
        "isBase64Encoded": False,
    }
