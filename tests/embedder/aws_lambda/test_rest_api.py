"""Events of payload format 1.0 where they differ from those of a Function URL."""

import base64
from typing import Any

import pytest

from embedder.aws_lambda.function_url import request_from_event, to_payload_v2
from embedder.http.http_types import Request
from tests.embedder.aws_lambda.test_function_url import EVENT, gzip_event
from tests.embedder.rest_api_event import rest_api_event


def read(event: dict[str, Any]) -> Request:
    """Read an event of either format, as the handler does."""
    return request_from_event(to_payload_v2(event))


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        # A custom domain's base path is in `path`, and the stage in `requestContext.path`.
        ({"path": "/embeddings/v1/models", "pathParameters": {"proxy": "v1/models"}}, "/v1/models"),
        ({"path": "/embeddings", "resource": "/"}, "/"),
        # Another API may mount the function below a path, or name the variable otherwise.
        (
            {
                "resource": "/team/{rest+}",
                "path": "/team/health",
                "pathParameters": {"rest": "health"},
            },
            "/health",
        ),
        ({"resource": "/health", "path": "/health", "pathParameters": None}, "/health"),
        ({"resource": "/{proxy+}", "path": "/health", "pathParameters": None}, "/health"),
        ({"resource": "/{proxy+}", "path": "/health", "pathParameters": {"other": "x"}}, "/health"),
        ({"resource": None, "path": "/health", "pathParameters": {"proxy": "x"}}, "/health"),
        ({"resource": "+}", "path": "/health", "pathParameters": {"proxy": "x"}}, "/health"),
    ],
)
def test_the_path_is_without_stage_and_base_path(changes, path):
    """The greedy path variable is the path of the embedder, wherever the API is mounted."""
    assert read(rest_api_event(EVENT) | changes).path == path


def test_all_values_of_a_header_are_read():
    """`headers` has only the last value of a repeated header; a Function URL joins them."""
    event = rest_api_event(EVENT) | {
        "headers": {"Accept": "b", "X-One": "1"},
        "multiValueHeaders": {"Accept": ["a", "b"]},
    }
    assert read(event).headers == {"accept": "a,b", "x-one": "1"}


@pytest.mark.parametrize("headers", [None, 7, {"A": None, "B": 7}])
def test_odd_multi_value_headers_do_no_harm(headers):
    """Values that are neither a string nor a list are ignored."""
    event = rest_api_event(EVENT) | {"headers": None, "multiValueHeaders": headers}
    assert read(event).headers == {}


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate"])
@pytest.mark.parametrize("binary", [False, True])
def test_a_body_that_api_gateway_inflated_is_taken_as_it_is(encoding, binary):
    """API Gateway inflates requests, and may leave the header that says otherwise."""
    body = b'{"text": "a"}'
    event = rest_api_event(gzip_event(body, headers={"Content-Encoding": encoding}))
    if not binary:
        event |= {"body": body.decode(), "isBase64Encoded": False}
    assert read(event).body == body


def test_gzip_is_accepted_only_through_an_api_that_passes_bytes():
    """An API with binary media types that leave JSON out would send a gzip answer on as base64.

    With the media type `*/*` every body arrives in base64, which shows that the API passes bytes.
    """
    accepting = {**EVENT, "headers": {"Accept-Encoding": "gzip, deflate"}}
    assert "accept-encoding" not in read(rest_api_event(accepting)).headers
    body = base64.b64encode(accepting["body"].encode()).decode()
    binary = rest_api_event({**accepting, "body": body, "isBase64Encoded": True})
    assert read(binary).headers["accept-encoding"] == "gzip, deflate"
    assert request_from_event(accepting).headers["accept-encoding"] == "gzip, deflate"
