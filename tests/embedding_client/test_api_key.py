"""API keys: where they are sent, and the refusals of API Gateway."""

import asyncio

import httpx
import httpx2
import pytest

from embedding_client import (
    ApiKeyAuth,
    AsyncEmbeddingClient,
    ConfigurationError,
    CredentialsError,
    EmbeddingClient,
    ForbiddenError,
    ThrottledError,
)
from tests.embedding_client.answers import embedded

URL = "https://abc123.execute-api.eu-central-1.amazonaws.com/live/"


def made(answer, url=URL, **options):
    """Return a client with a key whose requests a function answers."""
    http = httpx.Client(transport=httpx.MockTransport(answer))
    return EmbeddingClient(url, http_client=http, **{"auth": ApiKeyAuth("secret"), **options})


def keyed(challenge, seen):
    """Return a function that wants a key, in the header that its challenge names."""

    def answer(request):
        seen.append(httpx.Headers(request.headers))
        header = {"authorization": "Bearer secret"} if challenge else {"x-api-key": "secret"}
        if header.items() <= dict(request.headers).items():
            return embedded(request)
        return httpx.Response(401, headers={"www-authenticate": challenge} if challenge else {})

    return answer


@pytest.mark.parametrize(
    ("challenge", "headers"),
    [
        (None, ["x-api-key", "x-api-key"]),
        ("Bearer", ["x-api-key", "authorization", "authorization"]),
        ('Bearer error="invalid_token"', ["x-api-key", "authorization", "authorization"]),
        ('Basic realm="a", bearer', ["x-api-key", "authorization", "authorization"]),
    ],
)
def test_the_key_is_sent_as_the_server_says(challenge, headers):
    """API Gateway wants a header of its own, the server a bearer token. Nothing is signed."""
    seen: list[httpx.Headers] = []
    with made(keyed(challenge, seen)) as client:
        client.embed(["a"])
        client.embed(["a"])
    found = [{"x-api-key", "authorization"} & set(sent) for sent in seen]
    assert found == [{name} for name in headers]
    assert all("x-amz-date" not in sent for sent in seen)


@pytest.mark.parametrize("challenge", ["Basic", "BearerToken", 'Digest realm="bearer"'])
def test_another_challenge_does_not_get_the_key(challenge):
    """The 401 is the answer."""
    seen: list[httpx.Headers] = []
    with made(keyed(challenge, seen)) as client, pytest.raises(ForbiddenError):
        client.embed(["a"])
    assert len(seen) == 1


def test_a_streamed_body_is_sent_again_as_a_whole():
    """The library reads it first; a sync and an async client alike."""

    def answer(request):
        if "x-api-key" in request.headers:
            return httpx.Response(401, headers={"www-authenticate": "Bearer"})
        return httpx.Response(200, content=request.content)

    async def parts():
        yield b"one "
        yield b"two"

    async def send():
        transport = httpx.MockTransport(answer)
        async with httpx.AsyncClient(transport=transport, auth=ApiKeyAuth("secret")) as client:
            return (await client.post(URL, content=parts())).text

    with httpx.Client(transport=httpx.MockTransport(answer), auth=ApiKeyAuth("secret")) as client:
        assert client.post(URL, content=iter([b"one ", b"two"])).text == "one two"
    assert asyncio.run(send()) == "one two"


@pytest.mark.parametrize("client", [EmbeddingClient, AsyncEmbeddingClient])
def test_a_client_takes_a_key_or_another_auth(client):
    """Both would replace each other."""
    with pytest.raises(ConfigurationError, match="only one of auth and api_key"):
        client(URL, api_key="secret", auth=ApiKeyAuth("secret"))
    with pytest.raises(CredentialsError, match="without spaces"):
        client(URL, api_key="a secret")
    with pytest.raises(ConfigurationError, match="Invoke takes no API key"):
        client(function="embedder:live", region="eu-central-1", api_key="secret")


def test_async_clients_and_httpx2_send_it_too():
    """An SDK uses one library or the other."""

    async def embed():
        http = httpx.AsyncClient(
            transport=httpx.MockTransport(
                lambda request: embedded(request) if "x-api-key" in request.headers else None
            )
        )
        async with AsyncEmbeddingClient(URL, auth=ApiKeyAuth("secret"), http_client=http) as made:
            return await made.embed(["a"])

    assert len(asyncio.run(embed())) == 1
    transport = httpx2.MockTransport(lambda r: httpx2.Response(200, text=r.headers["x-api-key"]))
    with httpx2.Client(auth=ApiKeyAuth("secret"), transport=transport) as client:
        assert client.get(URL).text == "secret"


@pytest.mark.parametrize("key", ["", "a b", "a\n", "ä"])
def test_what_cannot_be_a_header_is_refused_without_a_quote(key):
    """The message does not contain the key. A copied key easily ends with a line break."""
    with pytest.raises(CredentialsError, match="printable ASCII characters") as caught:
        ApiKeyAuth(key)
    assert not key or key not in str(caught.value).replace("printable ASCII", "")


def refusal(status, code, message, headers=None):
    """Return an answer of API Gateway itself, which has OpenAI's form on every path."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return httpx.Response(status, json={"error": error}, headers=headers)


def test_a_refused_key_is_a_forbidden_error():
    """It has the message and the code of API Gateway's answer."""
    with (
        made(lambda _: refusal(401, "invalid_api_key", "No valid API key.")) as client,
        pytest.raises(ForbiddenError, match=r"No valid API key\.") as caught,
    ):
        client.embed(["a"])
    assert (caught.value.status, caught.value.code) == (401, "invalid_api_key")


def test_a_used_up_quota_is_not_retried():
    """The quota is used up until the next period, and the answer has `x-should-retry: false`."""
    requests = []

    def answer(request):
        requests.append(request)
        return refusal(429, "insufficient_quota", "Used up.", {"x-should-retry": "false"})

    with made(answer) as client, pytest.raises(ThrottledError, match="Used up"):
        client.embed(["a"])
    assert len(requests) == 1


def test_a_body_over_the_apis_limit_is_sent_in_halves():
    """API Gateway refuses bodies of 4.5 MB, which are below Lambda's limit."""

    def answer(request):
        large = len(request.content) > 100
        return refusal(413, "body_too_large", "Too large.") if large else embedded(request)

    with made(answer) as client:
        assert len(client.embed([f"text {number}" for number in range(50)])) == 50
