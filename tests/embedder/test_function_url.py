"""Payload format 2.0, in and out."""

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

#: As AWS documents it, cut to what is read and a little more.
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
    """Method in capitals, headers in lower case, the raw query, the body's bytes, the id."""
    request = request_from_event(EVENT)
    assert request.method == "POST"
    assert request.path == "/v1/embeddings"
    assert request.query == "parameter1=value1&parameter1=value2"
    assert request.headers == {"content-type": "application/json", "x-amzn-trace-id": "Root=1-2"}
    assert request.body == '{"input": "Grüße"}'.encode()
    assert request.id == "e1506fd5-9e7b-434f-bd42-4f8fa224b599"


def test_the_invocations_id_goes_before_the_events() -> None:
    """Lambda's own report names the invocation's id, so the log must name the same."""
    assert request_from_event(EVENT, request_id="invocation").id == "invocation"


@pytest.mark.parametrize("length", [1, 128])
def test_an_id_of_up_to_128_characters_is_kept(length: int) -> None:
    """The longest that is taken is taken."""
    context = {**EVENT["requestContext"], "requestId": "x" * length}
    assert request_from_event({**EVENT, "requestContext": context}).id == "x" * length


@pytest.mark.parametrize("odd", ["", 7, None, "a\nb", "ü", "\ud800", "x" * 129])
def test_an_id_that_is_none_is_left_out(odd: Any) -> None:
    """It would go into a header and into the log; the service then makes one."""
    context = {**EVENT["requestContext"], "requestId": odd}
    assert request_from_event({**EVENT, "requestContext": context}).id == ""


@pytest.mark.parametrize("event", [EVENT | {"body": None}, {**EVENT, "body": ""}])
def test_a_missing_body_is_no_bytes(event: dict[str, Any]) -> None:
    """A request without a body has an empty one."""
    assert request_from_event(event).body == b""


def test_only_path_and_method_are_needed() -> None:
    """Everything else may be absent."""
    request = request_from_event({"rawPath": "", "requestContext": {"http": {"method": "GET"}}})
    assert (request.method, request.path, request.body, request.query) == ("GET", "/", b"", "")


@given(st.binary(max_size=200))
def test_a_base64_body_becomes_its_bytes(body: bytes) -> None:
    """Lambda sends what is not text as base64."""
    event = {**EVENT, "body": base64.b64encode(body).decode(), "isBase64Encoded": True}
    assert request_from_event(event).body == body


@pytest.mark.parametrize("body", ["a", "====", "aGk=\n", "aGk", "ä", "aGk=x"])
def test_a_body_that_is_not_base64_is_refused(body: str) -> None:
    """A body said to be base64 that is not is the client's fault, and says so."""
    with pytest.raises(MalformedBodyError, match="is not base64"):
        request_from_event({**EVENT, "body": body, "isBase64Encoded": True})


def test_a_lone_surrogate_in_the_event_is_refused() -> None:
    """JSON may carry half a character; UTF-8 cannot."""
    with pytest.raises(MalformedBodyError, match="lone surrogate stands at character 9"):
        request_from_event({**EVENT, "body": '{"text":"\ud800"}'})


def test_a_body_that_is_not_a_string_is_refused() -> None:
    """A Function URL never sends one, a hand-made event may."""
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
    """A direct invocation, a scheduled event or payload 1.0: the error tells what is allowed."""
    with pytest.raises(NotAnEventError, match=r"payload format 2\.0"):
        request_from_event(event)


def test_odd_headers_do_no_harm() -> None:
    """What is not a string is no header."""
    assert request_from_event({**EVENT, "headers": None}).headers == {}
    assert request_from_event({**EVENT, "headers": {"A": "1", "b": None}}).headers == {"a": "1"}


def gzip_event(body: bytes, **changes: Any) -> dict[str, Any]:
    """Make the event of a request whose body is gzip."""
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return {
        **EVENT,
        "headers": headers,
        "body": base64.b64encode(body).decode(),
        "isBase64Encoded": True,
        **changes,
    }


def test_a_gzip_body_is_inflated() -> None:
    """It arrives in base64, as everything does that is not text."""
    assert request_from_event(gzip_event(gzip.compress(b'{"text": "a"}'))).body == b'{"text": "a"}'


def test_a_gzip_body_that_came_as_text_is_refused() -> None:
    """Its bytes are lost; the error says how to send it."""
    event = {**gzip_event(b""), "body": "\x1f\ufffd", "isBase64Encoded": False}
    with pytest.raises(MalformedBodyError, match=r"must arrive base64-encoded .*octet-stream"):
        request_from_event(event)


def test_an_inflated_body_has_the_limit_of_every_body() -> None:
    """Six megabytes, whatever it was before."""
    bomb = gzip.compress(bytes(MAX_REQUEST_BYTES + 1))
    with pytest.raises(BodyTooLargeError, match=f"more than {MAX_REQUEST_BYTES} bytes"):
        request_from_event(gzip_event(bomb))


@pytest.mark.parametrize(
    ("encoding", "told"),
    [("br", '"br"'), ("gzip, gzip", "a string of 10"), ("zstd", '"zstd"'), ("deflate", '"defl')],
)
def test_another_encoding_is_refused_by_name(encoding: str, told: str) -> None:
    """The error says which are allowed."""
    event = gzip_event(b"", headers={"content-encoding": encoding})
    with pytest.raises(MalformedBodyError, match=f"absent, or gzip, or identity; found {told}"):
        request_from_event(event)


@pytest.mark.parametrize("encoding", ["identity", "", " Identity "])
def test_no_encoding_is_none(encoding: str) -> None:
    """The body is what it is."""
    event = {**EVENT, "headers": {"content-encoding": encoding}}
    assert request_from_event(event).body == request_from_event(EVENT).body


def test_a_response_in_gzip_goes_out_in_base64() -> None:
    """As a Function URL wants everything that is not text."""
    headers = {"content-encoding": "gzip"}
    event = response_to_event(Response(200, b"\x1f\x8b\xff", headers))
    assert event["isBase64Encoded"] is True
    assert base64.b64decode(event["body"]) == b"\x1f\x8b\xff"
    assert event["headers"] == headers


def test_a_response_becomes_what_the_function_url_wants() -> None:
    """The body is text, the headers a plain object, all of it JSON."""
    event = response_to_event(Response(404, "ü".encode(), {"x-request-id": "1"}))
    assert json.loads(json.dumps(event)) == {
        "statusCode": 404,
        "headers": {"x-request-id": "1"},
        "body": "ü",
        "isBase64Encoded": False,
    }
