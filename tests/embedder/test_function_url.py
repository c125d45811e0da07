"""Conversion of events and responses in payload format 2.0."""

import base64
import gzip
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedder.errors import BodyTooLargeError, MalformedBodyError, NotAnEventError
from embedder.function_url import request_from_event, response_to_event
from embedder.messages import MAX_REQUEST_BYTES, Response

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


def test_an_event_becomes_a_request() -> None:
    """The method becomes upper case and the header names lower case; the rest is unchanged."""
    request = request_from_event(EVENT)
    assert request.method == "POST"
    assert request.path == "/v1/embeddings"
    assert request.headers == {"content-type": "application/json", "x-amzn-trace-id": "Root=1-2"}
    assert request.body == '{"input": "Grüße"}'.encode()
    assert request.id == "e1506fd5-9e7b-434f-bd42-4f8fa224b599"


def test_the_invocations_id_goes_before_the_events() -> None:
    """The log must have the invocation's id, because Lambda's own report has it."""
    assert request_from_event(EVENT, request_id="invocation").id == "invocation"


@pytest.mark.parametrize("length", [1, 128])
def test_an_id_of_up_to_128_characters_is_kept(length: int) -> None:
    """Ids of 1 and of 128 characters are accepted."""
    context = {**EVENT["requestContext"], "requestId": "x" * length}
    assert request_from_event({**EVENT, "requestContext": context}).id == "x" * length


@pytest.mark.parametrize("odd", ["", 7, None, "a\nb", "ü", "\ud800", "x" * 129])
def test_an_id_that_is_none_is_left_out(odd: Any) -> None:
    """An invalid id is dropped, because ids are written to a header and to the log."""
    context = {**EVENT["requestContext"], "requestId": odd}
    assert request_from_event({**EVENT, "requestContext": context}).id == ""


@pytest.mark.parametrize("event", [EVENT | {"body": None}, {**EVENT, "body": ""}])
def test_a_missing_body_is_no_bytes(event: dict[str, Any]) -> None:
    """A request without a body has an empty one."""
    assert request_from_event(event).body == b""


def test_only_path_and_method_are_needed() -> None:
    """All other fields may be absent."""
    request = request_from_event({"rawPath": "", "requestContext": {"http": {"method": "GET"}}})
    assert (request.method, request.path, request.body) == ("GET", "/", b"")


@given(st.binary(max_size=200))
def test_a_base64_body_becomes_its_bytes(body: bytes) -> None:
    """Lambda sends binary bodies as base64."""
    event = {**EVENT, "body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    assert request_from_event(event).body == body


@pytest.mark.parametrize("body", ["a", "====", "aGk=\n", "aGk", "ä", "aGk=x"])
def test_a_body_that_is_not_base64_is_refused(body: str) -> None:
    """A body that is marked as base64 but is invalid is reported as a client error."""
    with pytest.raises(MalformedBodyError, match="is not base64"):
        request_from_event({**EVENT, "body": body, "isBase64Encoded": True})


def test_a_lone_surrogate_in_the_event_is_refused() -> None:
    """JSON can contain a lone surrogate, but UTF-8 cannot."""
    with pytest.raises(MalformedBodyError, match="found a lone surrogate at character 9"):
        request_from_event({**EVENT, "body": '{"text":"\ud800"}'})


def test_a_body_that_is_not_a_string_is_refused() -> None:
    """A Function URL always sends a string, but a handwritten event may not."""
    with pytest.raises(MalformedBodyError, match='"body" must be a string'):
        request_from_event({**EVENT, "body": {"text": "hello"}})


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
    ],
)
def test_what_is_no_event_is_refused(event: Any) -> None:
    """Direct invocations, scheduled events and payload 1.0 get an error with the allowed format."""
    with pytest.raises(NotAnEventError, match=r"payload format 2\.0"):
        request_from_event(event)


def test_odd_headers_do_no_harm() -> None:
    """Headers whose value is not a string are ignored."""
    assert request_from_event({**EVENT, "headers": None}).headers == {}
    assert request_from_event({**EVENT, "headers": {"A": "1", "b": None}}).headers == {"a": "1"}


def gzip_event(body: bytes, **changes: Any) -> dict[str, Any]:
    """Return the event of a request with a gzip body."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return {
        **EVENT,
        "headers": headers,
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
        **changes,
    }


def test_a_gzip_body_is_inflated() -> None:
    """A gzip body arrives in base64, as all binary bodies do."""
    assert request_from_event(gzip_event(gzip.compress(b'{"text": "a"}'))).body == b'{"text": "a"}'


def test_a_gzip_body_that_came_as_text_is_refused() -> None:
    """The bytes are lost in that case, and the error explains how to send gzip."""
    event = {**gzip_event(b""), "body": "\x1f\ufffd", "isBase64Encoded": False}
    with pytest.raises(MalformedBodyError, match=r"must arrive base64-encoded .*octet-stream"):
        request_from_event(event)


def test_an_inflated_body_has_the_limit_of_every_body() -> None:
    """The limit of six megabytes also applies to the inflated body."""
    bomb = gzip.compress(bytes(MAX_REQUEST_BYTES + 1))
    with pytest.raises(BodyTooLargeError, match=f"more than {MAX_REQUEST_BYTES} bytes"):
        request_from_event(gzip_event(bomb))


@pytest.mark.parametrize(
    ("encoding", "found"),
    [("br", '"br"'), ("gzip, gzip", "a string of 10"), ("zstd", '"zstd"'), ("deflate", '"defl')],
)
def test_another_encoding_is_refused_by_name(encoding: str, found: str) -> None:
    """The error lists the allowed encodings and the value found."""
    event = gzip_event(b"", headers={"content-encoding": encoding})
    with pytest.raises(MalformedBodyError, match=f"absent, or gzip, or identity; found {found}"):
        request_from_event(event)


@pytest.mark.parametrize("encoding", ["identity", "", " Identity "])
def test_no_encoding_is_none(encoding: str) -> None:
    """A body with the encoding `identity` or an empty one is not changed."""
    event = {**EVENT, "headers": {"content-encoding": encoding}}
    assert request_from_event(event).body == request_from_event(EVENT).body


def test_a_response_in_gzip_goes_out_in_base64() -> None:
    """A Function URL expects binary responses in base64."""
    headers = {"content-encoding": "gzip"}
    event = response_to_event(Response(200, b"\x1f\x8b\xff", headers))
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == b"\x1f\x8b\xff"
    assert event["headers"] == headers


def test_a_response_becomes_what_the_function_url_wants() -> None:
    """The event has the body as text and the headers as an object, and can be written as JSON."""
    event = response_to_event(Response(404, "ü".encode(), {"x-request-id": "1"}))
    assert json.loads(json.dumps(event)) == {
        "statusCode": 404,
        "headers": {"x-request-id": "1"},
        "body": "ü",
        "isBase64Encoded": False,
    }
