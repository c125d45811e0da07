"""Calls by Lambda's Invoke: with mocked responses of Lambda, and with a real model."""

import json
import urllib.parse
from typing import Any

import httpx2
import numpy as np
import pytest
from botocore.credentials import Credentials

from embedding_client import (
    BatchLimits,
    ConfigurationError,
    EmbeddingClient,
    EmbeddingClientError,
    RetryPolicy,
    ServiceError,
    SigV4Auth,
    ThrottledError,
    UnreachableError,
)
from embedding_client._targets import function_target
from tests.embedding_client.answers import NO_WAIT, asynchronously, embedded

ARN = "arn:aws:lambda:eu-central-1:123456789012:function:embedder:live"
API = "https://lambda.eu-central-1.amazonaws.com"


def result(response):
    """Return what the function returns for an HTTP response."""
    value = {
        "statusCode": response.status_code,
        "headers": dict(response.headers),
        "body": response.text,
        "isBase64Encoded": False,
    }
    return httpx2.Response(200, json=value, headers={"x-amzn-requestid": "invocation-1"})


def failed(kind, message):
    return httpx2.Response(
        200,
        json={"errorType": kind, "errorMessage": message},
        headers={"x-amz-function-error": "Unhandled", "x-amzn-requestid": "invocation-1"},
    )


def asked(invocation):
    """Return the HTTP request in the event of an invocation."""
    event = json.loads(invocation.content)
    assert event["version"] == "2.0"
    assert event["isBase64Encoded"] is False
    method = event["requestContext"]["http"]["method"]
    body = event.get("body")
    return httpx2.Request(method, "http://f" + event["rawPath"], content=body)


def made(answer, *, function=ARN, **more):
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    options: dict[str, Any] = {"auth": httpx2.Auth(), "retries": NO_WAIT, **more}
    return EmbeddingClient(function=function, http_client=http, **options)


def test_the_event_is_that_of_a_function_url():
    """The alias is the qualifier, and path, method and body are in the event."""
    seen = []

    def answer(request):
        seen.append(request)
        return result(embedded(asked(request)))

    with made(answer) as client:
        vectors = client.embed(["a", "bcd"])
    assert vectors.tolist() == [[1, 97], [3, 98]]
    (request,) = seen
    name = urllib.parse.quote(ARN.removesuffix(":live"), safe="")
    assert str(request.url) == f"{API}/2015-03-31/functions/{name}/invocations?Qualifier=live"
    assert request.method == "POST"
    assert request.headers["x-amz-invocation-type"] == "RequestResponse"
    event = json.loads(request.content)
    assert event["rawPath"] == "/"
    assert event["headers"] == {"content-type": "application/json"}
    assert event["requestContext"]["http"] == {"method": "POST", "path": "/"}


def test_a_response_without_a_body_is_asked_for_without_one():
    """`info` sends a GET without a body."""
    with made(
        lambda request: result(httpx2.Response(200, json={"path": asked(request).url.path}))
    ) as client:
        assert client.info() == {"path": "/info"}


def test_a_result_in_base64_is_decoded():
    """The function may return its body in base64."""
    body = {"statusCode": 200, "body": "eyJhIjogMX0=", "isBase64Encoded": True}
    with made(lambda _: httpx2.Response(200, json=body)) as client:
        assert client.info() == {"a": 1}


def test_throttles_are_retried_after_the_time_that_lambda_asks_for():
    """`Retry-After` beyond the longest wait ends the retries, and a shorter one does not."""
    count = []

    def answer(request):
        count.append(1)
        wait = "3600" if len(count) == 3 else "0"
        return httpx2.Response(
            429, json={"message": "Rate Exceeded."}, headers={"retry-after": wait}
        )

    with made(answer) as client, pytest.raises(ThrottledError, match=r"Rate Exceeded\."):
        client.embed(["a"])
    assert len(count) == 3


def test_a_failure_of_the_function_is_retried_and_then_raised():
    """It is a 502, as at the Function URL, with Lambda's reason."""
    count = []

    def answer(_):
        count.append(1)
        return failed("Sandbox.Timedout", "RequestId: 1 Error: Task timed out after 60.00 seconds")

    with (
        made(answer, retries=RetryPolicy(base=0, attempts=3)) as client,
        pytest.raises(ServiceError, match=r"Task timed out after 60\.00 seconds") as caught,
    ):
        client.embed(["a"])
    assert len(count) == 3
    assert (caught.value.status, caught.value.code) == (502, "Sandbox.Timedout")
    assert caught.value.request_id == "invocation-1"


@pytest.mark.parametrize(
    "too_large",
    [
        failed("Function.ResponseSizeTooLarge", "Response payload size exceeded"),
        httpx2.Response(413, json={"Type": "User", "message": "Request must be smaller"}),
    ],
    ids=["result", "event"],
)
def test_what_is_over_lambdas_limit_is_split(too_large):
    """The client sends the texts again in halves."""
    sizes = []

    def answer(request):
        texts = json.loads(asked(request).content)["texts"]
        sizes.append(len(texts))
        return too_large if len(texts) > 1 else result(embedded(asked(request)))

    with made(answer) as client:
        assert len(client.embed(["a", "b"])) == 2
    assert sizes == [2, 1, 1]


def test_texts_are_split_below_the_limit_of_the_event():
    """Texts of 2 MB in the event, because each character is escaped twice, go two at a time."""
    sizes = []

    def answer(request):
        sizes.append(len(request.content))
        return result(embedded(asked(request)))

    text = '"' * 500_000
    with made(answer, limits=BatchLimits(tokens=10**9)) as client:
        client.embed([text] * 5)
    assert len(sizes) == 3
    assert max(sizes) < 6 * 1024 * 1024


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"statusCode": "x"}', "Internal Server Error"),
        (b'{"statusCode": 200, "body": 1}', "Internal Server Error"),
        (b'{"statusCode": 200, "body": "?", "isBase64Encoded": true}', "Internal Server Error"),
        (b"[1]", "is not a JSON object"),
        (b"no JSON", "is not a JSON object"),
    ],
)
def test_a_result_of_another_form_is_an_error(content, message):
    """A function that is no embedding endpoint raises `ServiceError`."""
    with (
        made(lambda _: httpx2.Response(200, content=content)) as client,
        pytest.raises(ServiceError, match=message),
    ):
        client.info()


@pytest.mark.parametrize(
    ("arguments", "url"),
    [
        ({"function": ARN}, API),
        ({"function": "embedder:live", "region": "eu-west-1"}, "https://lambda.eu-west-1.amazonaws.com"),
        ({"function": "123456789012:function:embedder:live", "region": "eu-west-1"}, "https://lambda.eu-west-1.amazonaws.com"),
        ({"function": "e:live", "region": "cn-north-1"}, "https://lambda.cn-north-1.amazonaws.com.cn"),
        (
            {"function": "e:live", "endpoint_url": "https://vpce-0a-1b.lambda.eu-west-3.vpce.amazonaws.com/"},
            "https://vpce-0a-1b.lambda.eu-west-3.vpce.amazonaws.com",
        ),
    ],
)  # fmt: skip
def test_the_address_of_lambda_is_found(arguments, url):
    """The region comes from the argument, the ARN or the endpoint's own name."""
    target = function_target(**arguments)
    assert target.api == url
    assert target.region in url


def test_the_address_may_be_configured(monkeypatch):
    """Botocore's variables hold here, too."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_LAMBDA", "http://127.0.0.1:4566")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    target = function_target("embedder:live")
    assert (target.api, target.region) == ("http://127.0.0.1:4566", "eu-north-1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "not both; found neither"),
        ({"url": "https://x.on.aws", "function": "e:live"}, "not both; found both"),
        ({"url": "https://x.on.aws", "region": "eu-west-1"}, "belong to function="),
        ({"function": "embedder"}, r"named with its alias, such as embedder:live.*'embedder'"),
        ({"function": ARN.removesuffix(":live")}, "named with its alias"),
        ({"function": "123456789012:embedder:live"}, "named with its alias"),
        ({"function": "e:live/../x"}, "named with its alias"),
        ({"function": ARN, "region": "eu-west-1"}, "in eu-central-1, but region='eu-west-1'"),
        ({"function": "e:live"}, "region of 'e:live' is unknown"),
        ({"function": "e:live", "region": "no region"}, "e:live: .*no region"),
        ({"function": "e:live", "endpoint_url": "lambda"}, "must look like"),
    ],
)
def test_arguments_must_name_one_endpoint(arguments, message):
    """Otherwise the client is not made, and the message gives the reason."""
    with pytest.raises(ConfigurationError, match=message):
        EmbeddingClient(**arguments)


def test_requests_to_lambdas_api_are_signed():
    """So are those to an interface endpoint; hosts with such a name elsewhere are not."""
    auth = SigV4Auth(credentials=Credentials("AKIDEXAMPLE", "secret"))

    def signature(url):
        with httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(200))) as http:
            return http.post(url, auth=auth).request.headers.get("authorization", "")

    assert "/eu-central-1/lambda/aws4_request" in signature(API)
    vpce = "https://vpce-0a1-b2c-eu-west-3a.lambda.eu-west-3.vpce.amazonaws.com/"
    assert "/eu-west-3/lambda/aws4_request" in signature(vpce)
    for host in ("lambda.eu-west-3.amazonaws.com.example.org", "xlambda.eu-west-3.amazonaws.com"):
        assert signature(f"https://{host}/") == ""


def test_an_unreachable_function_is_named():
    """The message has the function and the number of attempts."""

    def answer(_):
        raise httpx2.ConnectError("no route")

    with (
        made(answer, function="embedder:live", region="eu-west-1") as client,
        pytest.raises(
            UnreachableError, match="embedder:live did not respond in 6 attempts: no route"
        ),
    ):
        client.info()


@pytest.fixture
def function(running):
    """Name the running model's function."""
    return {"function": "embedder:live", "endpoint_url": running.url}


def test_the_vectors_are_those_of_the_url(client, function):
    """All ways give the same bits and the same vector space, also in several requests."""
    texts = [f"text number {number}" for number in range(20)]
    with EmbeddingClient(**function, limits=BatchLimits(texts=8)) as invoking:
        vectors = invoking.embed(texts, input_type="document")
        assert np.array_equal(vectors, client.embed(texts, input_type="document"))
        assert invoking.vector_space == client.vector_space
        assert invoking.info() == client.info()
    embed = asynchronously(lambda other: other.embed(texts, input_type="document"), **function)
    assert np.array_equal(embed, vectors)


@pytest.mark.parametrize(
    ("options", "texts"),
    [({"dimensions": 7}, ["a"]), ({"prompt": "nothing"}, ["a"]), ({}, ["a", "word " * 3000])],
)
def test_the_errors_are_those_of_the_url(client, function, options, texts):
    """A request that the endpoint refuses raises the same error both ways."""
    with EmbeddingClient(**function) as invoking:
        with pytest.raises(EmbeddingClientError) as expected:
            client.embed(texts, **options)
        with pytest.raises(EmbeddingClientError) as found:
            invoking.embed(texts, **options)
    assert type(found.value) is type(expected.value)
    for name in ("status", "code", "field", "position", "reason"):
        assert getattr(found.value, name) == getattr(expected.value, name)


def test_embed_calls_a_function(function, running, command):
    """`--function` prints the same lines as `--url`."""
    expected = command("--url", running.url, "hello world")
    named = ["--function", function["function"], "--endpoint-url", function["endpoint_url"]]
    assert command(*named, "hello world") == expected
    assert json.loads(command("info", *named)[1])["vector_space"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--function", "e:live", "--api-key-env", "K", "a"], "takes a signature only"),
        (["--function", "e", "a"], "named with its alias"),
        (["--url", "http://127.0.0.1:9", "--endpoint-url", "http://x", "a"], "to --function"),
        (["info", "http://127.0.0.1:9", "--function", "e:live"], "not both"),
        (["--url", "http://127.0.0.1:9", "--function", "e:live", "a"], "not allowed with argument"),
    ],
)  # fmt: skip
def test_embed_says_which_arguments_do_not_fit(arguments, message, command):
    """The exit status is that of invalid arguments."""
    code, _, err = command(*arguments)
    assert (code, message in err) == (2, True)
