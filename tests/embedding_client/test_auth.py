"""Signatures and API keys: the headers, and the hosts that get them."""

import asyncio
import hashlib
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta

import botocore.session
import httpx
import httpx2
import pytest
from botocore.credentials import Credentials, RefreshableCredentials

from embedding_client import (
    ApiKeyAuth,
    AsyncEmbeddingClient,
    ConfigurationError,
    CredentialsError,
    EmbeddingClient,
    ForbiddenError,
    SigV4Auth,
    ThrottledError,
)
from embedding_client._auth import signing_region
from tests.embedding_client.answers import embedded
from tools.local_endpoint.signature import SignatureError, SignedRequest, Verifier

URL = "https://abc123.lambda-url.eu-central-1.on.aws"
PAIR = Credentials("AKID", "secret")


def sent(auth, *, method="POST", url=URL + "/", library=httpx2, **parts):
    """Return the request that an HTTP client with this auth sends."""
    seen = []

    def answer(request):
        seen.append(request)
        return library.Response(200)

    with library.Client(auth=auth, transport=library.MockTransport(answer)) as client:
        client.request(method, url, **parts)
    return seen[0]


def accepted(request, *, region="eu-central-1", pair=PAIR):
    """Verify a request as the local Function URL does. Return its caller."""
    received = SignedRequest(
        method=request.method,
        target=request.url.raw_path.decode(),
        headers={name.lower(): value for name, value in request.headers.items()},
        body=request.content,
    )
    return Verifier(credentials=pair, region=region).verify(received)


@pytest.mark.parametrize("library", [httpx, httpx2], ids=["httpx", "httpx2"])
@pytest.mark.parametrize(
    "path",
    ["/", "/v1/embeddings", "/a b/é?x=1 2&y=%2F&x=0", "/p?q=a:b/c+d&flag", "/~user/(1)?a='b'"],
)
def test_the_signature_covers_any_path_and_query(library, path):
    """The URL is signed as httpx and httpx2 send it."""
    request = sent(SigV4Auth(credentials=PAIR), url=URL + path, library=library, content=b"body")
    assert accepted(request).access_key == "AKID"


def test_a_streamed_body_is_signed():
    """The body is read completely before it is signed."""
    request = sent(SigV4Auth(credentials=PAIR), content=iter([b"one ", b"two"]))
    assert request.headers["x-amz-content-sha256"] == hashlib.sha256(b"one two").hexdigest()
    accepted(request)


def test_headers_that_proxies_change_are_not_signed():
    """The signature is valid after a proxy changes the user agent."""
    request = sent(SigV4Auth(credentials=PAIR), headers={"user-agent": "a"}, json={})
    request.headers["user-agent"] = "b"
    request.headers["accept-encoding"] = "identity"
    accepted(request)


def test_the_signature_covers_the_relevant_headers():
    """They are the host, the content type and each `x-amz-` header."""
    request = sent(
        SigV4Auth(credentials=Credentials("AKID", "secret", "token")),
        headers={"x-amz-meta-team": "search", "x-other": "1"},
        json={},
    )
    signed = re.search(r"SignedHeaders=([^,]+),", request.headers["authorization"])[1].split(";")
    assert signed == [
        "content-type",
        "host",
        "x-amz-content-sha256",
        "x-amz-date",
        "x-amz-meta-team",
        "x-amz-security-token",
    ]
    assert accepted(request).session_token == "token"


@pytest.mark.parametrize("name", ["content-type", "x-amz-meta-team"])
def test_a_change_of_a_signed_header_is_detected(name):
    """The endpoint computes another signature."""
    headers = {"content-type": "application/json", "x-amz-meta-team": "search"}
    request = sent(SigV4Auth(credentials=PAIR), headers=headers, content=b"{}")
    request.headers[name] = "changed"
    with pytest.raises(SignatureError):
        accepted(request)


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "lambda-url.eu-central-1.on.aws",
        "abc.lambda-url.eu-central-1.on.aws.example.com",
        "abc.lambda-url.eu-central-1.on.aws.cn.example.com",
        "abc-lambda-url.eu-central-1.on.aws",
        "abc.lambda-url.eu-central-1.onXaws",
        "lambda.eu-central-1.amazonaws.com.example.com",
        "lambda.eu-central-1.api.aws.example.com",
        "example-lambda.eu-central-1.amazonaws.com",
        "abc.lambda.eu-central-1.amazonaws.com",
        "localhost.example.com",
    ],
)
def test_requests_to_other_hosts_are_not_signed(host):
    """One that only contains the name of a Function URL, of Lambda or of this machine is such."""
    url = f"https://{host}/"
    request = sent(SigV4Auth(credentials=PAIR), url=url, headers={"authorization": "Bearer x"})
    assert request.headers["authorization"] == "Bearer x"
    assert "x-amz-date" not in request.headers


def test_custom_domains_are_signed_for():
    """With `hosts` and `region`."""
    auth = SigV4Auth(credentials=PAIR, hosts=["embed.example.com"], region="eu-west-1")
    accepted(sent(auth, url="https://embed.example.com/"), region="eu-west-1")


def test_a_domain_without_a_region_is_an_error():
    """The message names the argument and the variable."""
    auth = SigV4Auth(credentials=PAIR, hosts=["embed.example.com"])
    with pytest.raises(ConfigurationError, match="Give region=, or set AWS_REGION"):
        sent(auth, url="https://embed.example.com/")


def test_the_region_comes_from_the_url(monkeypatch):
    """The configured region applies only to other hosts."""
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert signing_region("abc.lambda-url.eu-west-3.on.aws") == "eu-west-3"
    assert signing_region("embed.example.com") == "ap-south-1"
    monkeypatch.delenv("AWS_REGION")
    assert signing_region("127.0.0.1") == "us-east-1"


def test_credentials_come_from_a_profile(monkeypatch, tmp_path):
    """Botocore reads the profile from the configuration files."""
    file = tmp_path / "credentials"
    file.write_text("[team]\naws_access_key_id = AKID\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    accepted(sent(SigV4Auth(profile="team")))


def test_credentials_come_from_a_given_session():
    """The botocore session provides the credentials."""
    session = botocore.session.Session()
    session.set_credentials("AKID", "secret")
    accepted(sent(SigV4Auth(session=session)))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "No AWS credentials were found: set AWS_ACCESS"),
        ({"profile": "nobody"}, "config profile"),
    ],
)
def test_no_credentials_are_an_error_of_this_package(given, message):
    """It names the variables to set, or has botocore's message."""
    with pytest.raises(CredentialsError, match=message):
        sent(SigV4Auth(**given))


def test_two_sources_of_credentials_are_an_error():
    """Only one of the arguments is allowed."""
    with pytest.raises(ConfigurationError, match="one of profile, session and credentials"):
        SigV4Auth(profile="a", credentials=PAIR)


def expiring(keys):
    """Return credentials that expire soon. Each refresh returns the next of some keys."""

    def renew():
        return {
            "access_key": next(keys),
            "secret_key": "secret",
            "token": "t",
            "expiry_time": (datetime.now(UTC) + timedelta(seconds=5)).isoformat(),
        }

    return RefreshableCredentials.create_from_metadata(
        metadata=renew(), refresh_using=renew, method="test"
    )


def test_credentials_are_refreshed():
    """Each request uses current credentials."""
    auth = SigV4Auth(credentials=expiring(iter(["FIRST", "SECOND", "THIRD"])))
    keys = [sent(auth).headers["authorization"].split("=")[1].split("/")[0] for _ in range(2)]
    assert keys == ["SECOND", "THIRD"]


def test_credentials_are_refreshed_asynchronously():
    """In asynchronous clients too."""
    auth = SigV4Auth(credentials=expiring(iter(["FIRST", "SECOND"])))

    async def send():
        transport = httpx2.MockTransport(lambda request: httpx2.Response(200, request=request))
        async with httpx2.AsyncClient(auth=auth, transport=transport) as client:
            return (await client.post(URL + "/", json={})).request

    request = asyncio.run(send())
    accepted(request, pair=Credentials("SECOND", "secret"))


def test_httpx_is_optional():
    """The signer works with httpx2 alone."""
    program = (
        "import sys; sys.modules['httpx'] = None\n"
        "import httpx2\n"
        "from embedding_client import SigV4Auth\n"
        "assert isinstance(SigV4Auth(), httpx2.Auth)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


KEY_URL = "https://abc123.execute-api.eu-central-1.amazonaws.com/live/"


def made(answer, url=KEY_URL, **options):
    """Return a client with a key; a function answers its requests."""
    http = httpx2.Client(transport=httpx2.MockTransport(answer))
    return EmbeddingClient(url, http_client=http, **{"auth": ApiKeyAuth("secret"), **options})


def keyed(challenge, seen):
    """Return a function that wants a key, in the header that its challenge names."""

    def answer(request):
        seen.append(httpx2.Headers(request.headers))
        header = {"authorization": "Bearer secret"} if challenge else {"x-api-key": "secret"}
        if header.items() <= dict(request.headers).items():
            return embedded(request)
        return httpx2.Response(401, headers={"www-authenticate": challenge} if challenge else {})

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
    """API Gateway wants another header, the server a bearer token. Nothing is signed."""
    seen: list[httpx2.Headers] = []
    with made(keyed(challenge, seen)) as client:
        client.embed(["a"])
        client.embed(["a"])
    found = [{"x-api-key", "authorization"} & set(sent) for sent in seen]
    assert found == [{name} for name in headers]
    assert all("x-amz-date" not in sent for sent in seen)


@pytest.mark.parametrize("challenge", ["Basic", "BearerToken", 'Digest realm="bearer"'])
def test_another_challenge_does_not_get_the_key(challenge):
    """The 401 is the answer."""
    seen: list[httpx2.Headers] = []
    with made(keyed(challenge, seen)) as client, pytest.raises(ForbiddenError):
        client.embed(["a"])
    assert len(seen) == 1


def test_a_streamed_body_is_sent_again_as_a_whole():
    """The library reads it first; a sync and an async client alike."""

    def answer(request):
        if "x-api-key" in request.headers:
            return httpx2.Response(401, headers={"www-authenticate": "Bearer"})
        return httpx2.Response(200, content=request.content)

    async def parts():
        yield b"one "
        yield b"two"

    async def send():
        transport = httpx2.MockTransport(answer)
        async with httpx2.AsyncClient(transport=transport, auth=ApiKeyAuth("secret")) as client:
            return (await client.post(KEY_URL, content=parts())).text

    with httpx2.Client(transport=httpx2.MockTransport(answer), auth=ApiKeyAuth("secret")) as client:
        assert client.post(KEY_URL, content=iter([b"one ", b"two"])).text == "one two"
    assert asyncio.run(send()) == "one two"


@pytest.mark.parametrize("client", [EmbeddingClient, AsyncEmbeddingClient])
def test_a_client_takes_a_key_or_another_auth(client):
    """Both would replace each other."""
    with pytest.raises(ConfigurationError, match="only one of auth and api_key"):
        client(KEY_URL, api_key="secret", auth=ApiKeyAuth("secret"))
    with pytest.raises(CredentialsError, match="without spaces"):
        client(KEY_URL, api_key="a secret")
    with pytest.raises(ConfigurationError, match="Invoke takes no API key"):
        client(function="embedder:live", region="eu-central-1", api_key="secret")


def test_httpx_sends_a_key_too():
    """Cohere's SDK uses it."""
    transport = httpx.MockTransport(lambda r: httpx.Response(200, text=r.headers["x-api-key"]))
    with httpx.Client(auth=ApiKeyAuth("secret"), transport=transport) as client:
        assert client.get(KEY_URL).text == "secret"


def test_a_client_of_httpx_is_no_http_client_of_ours():
    """Its errors are of other classes, which no retry would know."""
    with httpx.Client() as http, pytest.raises(ConfigurationError) as refused:
        EmbeddingClient(KEY_URL, api_key="secret", http_client=http)  # type: ignore[arg-type]
    assert str(refused.value) == (
        "http_client must be an httpx2.Client; found httpx.Client, a class of another library."
    )


@pytest.mark.parametrize("key", ["", "a b", "a\n", "ä"])
def test_what_cannot_be_a_header_is_refused_without_a_quote(key):
    """The message does not contain the key. A copied key easily ends with a line break."""
    with pytest.raises(CredentialsError, match="printable ASCII characters") as caught:
        ApiKeyAuth(key)
    assert not key or key not in str(caught.value).replace("printable ASCII", "")


def test_a_used_up_quota_is_not_retried():
    """The quota is used up until the next period, and the answer has `x-should-retry: false`."""
    requests = []

    def answer(request):
        requests.append(request)
        # API Gateway's own answers have OpenAI's form on every path.
        error = {"message": "Used up.", "param": None, "code": "insufficient_quota"}
        headers = {"x-should-retry": "false"}
        return httpx2.Response(429, json={"error": error}, headers=headers)

    with made(answer) as client, pytest.raises(ThrottledError, match="Used up"):
        client.embed(["a"])
    assert len(requests) == 1
