"""The client and the command with the kit's own server: with keys, without keys, without TLS."""

import asyncio
import json
import subprocess
import sys

import httpx2
import pytest

from embedding_client import (
    ApiKeyAuth,
    AsyncEmbeddingClient,
    ConfigurationError,
    CredentialsError,
    EmbeddingClient,
    ForbiddenError,
    SigV4Auth,
)
from embedding_client.langchain import FunctionUrlEmbeddings
from embedding_client.llamaindex import FunctionUrlEmbedding
from tests.embedder.server.running import keys_of
from tests.embedder.server.running import running as running_server
from tests.embedding_client.answers import asynchronously, embedded

#: Of this machine, but not one of the names by which the client knows it.
HOST = "127.0.0.2"
HOST_OF_OURS = "https://embed.example.com"
PLAIN = "http://embeddings.example.com:8080"


@pytest.fixture(scope="module")
def keyed():
    """Serve a small model to callers with the key `secret`."""
    with running_server(keys=keys_of("secret"), host=HOST) as server:
        yield server.url


@pytest.fixture(scope="module")
def open_server():
    """Serve a small model to everybody."""
    with running_server(host=HOST) as server:
        yield server.url


@pytest.fixture(autouse=True)
def nobody(monkeypatch, tmp_path):
    """Set the key, and forget the endpoints of who runs the tests."""
    monkeypatch.delenv("EMBEDDING_URL", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("OUR_KEY", "secret")


@pytest.fixture
def embed():
    """Run the command; return its exit status, its output and its errors.

    In another process: the servers write their logs to the output of this one.
    """

    def run(*arguments):
        command = [sys.executable, "-m", "embedding_client.cli", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.mark.parametrize("command", [("a text",), ("info",)])
def test_the_command_sends_a_key_to_a_server(keyed, embed, command):
    """The server says in its 401 that it takes a bearer token; no AWS credentials are needed."""
    asked = (*command, "--url", keyed, "--allow-plain-http")
    status, output, errors = embed(*asked, "--api-key-env", "OUR_KEY")
    assert (status, errors) == (0, "")
    assert "vector_space" in output


def test_the_client_sends_a_key_to_a_server(keyed):
    """`api_key` is enough, blocking and asynchronously."""
    with EmbeddingClient(keyed, api_key="secret", allow_plain_http=True) as client:
        vectors = client.embed(["one", "two"])
    auth = ApiKeyAuth("secret", allow_plain_http=True)
    options = {"auth": auth, "allow_plain_http": True}
    assert (asynchronously(lambda c: c.embed(["one", "two"]), keyed, **options) == vectors).all()


def test_a_key_that_a_server_does_not_know_is_forbidden(keyed):
    """After both headers were tried, with the server's reason."""
    with (
        EmbeddingClient(keyed, api_key="wrong", allow_plain_http=True) as client,
        pytest.raises(ForbiddenError, match="The API key is not valid"),
    ):
        client.embed(["one"])


def test_a_missing_key_is_forbidden(keyed, embed):
    """The message of the command names its option."""
    status, _, errors = embed("a text", "--url", keyed, "--allow-plain-http")
    assert status == 1
    assert "An API key is required" in errors
    assert "--api-key-env" in errors


def test_a_server_without_keys_needs_no_credentials(open_server, embed):
    """Neither a signature nor a region."""
    assert embed("a text", "--url", open_server, "--allow-plain-http")[0] == 0
    with EmbeddingClient(open_server, allow_plain_http=True) as client:
        assert len(client.embed(["one"])) == 1


def test_a_host_of_ones_own_gets_no_signature_before_it_asks(monkeypatch):
    """A custom domain of a Function URL refuses the first request, and gets all others signed."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    seen = []

    def answer(request):
        seen.append("x-amz-security-token" in request.headers)
        return (
            embedded(request) if seen[-1] else httpx2.Response(403, json={"Message": "Forbidden"})
        )

    async def embed_twice(client):
        await client.embed(["a"])
        await client.embed(["b"])

    transport = httpx2.MockTransport(answer)
    with EmbeddingClient(HOST_OF_OURS, http_client=httpx2.Client(transport=transport)) as client:
        client.embed(["a"])
        client.embed(["b"])
    http = httpx2.AsyncClient(transport=transport)
    asynchronously(embed_twice, HOST_OF_OURS, http_client=http)
    assert seen == [False, True, True] * 2


def test_a_function_url_gets_no_request_without_a_signature():
    """AWS's own hosts always want one, so the first request has it."""
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: pytest.fail("it was sent")))
    url = "https://abc.lambda-url.eu-west-1.on.aws"
    with (
        EmbeddingClient(url, http_client=http) as client,
        pytest.raises(CredentialsError, match=r"^No AWS credentials were found"),
    ):
        client.embed(["a"])


def test_a_host_that_wants_a_signature_is_named():
    """The lack of credentials alone would not say why any are needed."""
    http = httpx2.Client(transport=httpx2.MockTransport(lambda _: httpx2.Response(403)))
    with (
        EmbeddingClient(HOST_OF_OURS, http_client=http) as client,
        pytest.raises(CredentialsError, match=r"embed.example.com refuses .* No AWS credentials"),
    ):
        client.embed(["a"])


CLEAR = r"would travel in the clear; found: http://embeddings\.example\.com; allowed: https"


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (EmbeddingClient, {"url": PLAIN}),
        (AsyncEmbeddingClient, {"url": PLAIN}),
        (FunctionUrlEmbeddings, {"url": PLAIN}),
        (FunctionUrlEmbedding, {"url": PLAIN}),
        # An interface endpoint of Lambda's API has TLS.
        (EmbeddingClient, {"function": "a:live", "endpoint_url": PLAIN, "region": "eu-west-1"}),
    ],
)
def test_nothing_travels_in_the_clear(kind, place):
    """A client for another machine without TLS cannot be made, unless it is allowed."""
    with pytest.raises(ConfigurationError, match=CLEAR):
        kind(**place)
    kind(**place, allow_plain_http=True)


@pytest.mark.parametrize(
    "command", [["a text"], ["info"], ["search", "a"], ["similar", "a"], ["doctor"]]
)
def test_nothing_travels_in_the_clear_from_a_command(embed, command):
    """Each command that calls an endpoint refuses, with the name of its option."""
    status, _, errors = embed(*command, "--url", PLAIN)
    assert status == 2
    assert "would travel in the clear" in errors
    assert "--allow-plain-http" in errors


@pytest.mark.parametrize(
    "auth",
    [
        lambda **options: ApiKeyAuth("secret", **options),
        lambda **options: SigV4Auth(
            hosts=["embeddings.example.com"], region="eu-west-1", **options
        ),
    ],
)
def test_an_sdks_client_sends_no_secret_in_the_clear(auth, monkeypatch):
    """A key and a signature alike, sync and async."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    sent = []

    def answer(request):
        sent.append({"x-api-key", "authorization"} & set(request.headers))
        return httpx2.Response(200)

    async def send():
        async with httpx2.AsyncClient(
            transport=httpx2.MockTransport(answer), auth=auth()
        ) as client:
            await client.post(PLAIN, content=b"{}")

    with (
        httpx2.Client(transport=httpx2.MockTransport(answer), auth=auth()) as client,
        pytest.raises(ConfigurationError, match=CLEAR),
    ):
        client.post(PLAIN, content=b"{}")
    with pytest.raises(ConfigurationError, match=CLEAR):
        asyncio.run(send())
    assert sent == []
    allowed = auth(allow_plain_http=True)
    with httpx2.Client(transport=httpx2.MockTransport(answer), auth=allowed) as client:
        client.post(PLAIN, content=b"{}")
    assert len(sent) == 1
    assert sent[0]


@pytest.fixture
def doctor(embed):
    """Run `embed doctor` at a server; return the exit status and the findings by check."""

    def run(url, *arguments):
        arguments = ("doctor", "--url", url, "--allow-plain-http", "--json", *arguments)
        status, output, errors = embed(*arguments)
        assert errors == ""
        return status, {check["name"]: check for check in json.loads(output)["checks"]}

    return run


def test_the_doctor_finds_a_server_with_keys_well(keyed, doctor):
    """It needs no AWS credentials, and nothing is warned about."""
    status, report = doctor(keyed, "--api-key-env", "OUR_KEY")
    assert status == 0
    assert not {name for name, check in report.items() if check["state"] == "warning"}
    assert report["credentials"]["found"] == "the endpoint takes no signature"
    assert report["permissions"]["found"] == "the endpoint takes no signature"
    assert report["unsigned"]["found"] == "401"
    assert report["signed"]["found"].startswith("200, ")


def test_the_doctor_warns_about_a_server_without_keys(open_server, doctor):
    """Everybody who reaches it gets answers."""
    status, report = doctor(open_server)
    assert status == 0
    warned = {name for name, check in report.items() if check["state"] == "warning"}
    assert warned == {"unsigned"}
    assert "a server without keys" in report["unsigned"]["found"]
