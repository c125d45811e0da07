"""What SigV4Auth puts on requests, and on which."""

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

from embedding_client import ConfigurationError, CredentialsError, SigV4Auth
from embedding_client.signing import region_of
from local_function_url.signature import SignatureError, SignedRequest, Verifier

URL = "https://abc123.lambda-url.eu-central-1.on.aws"
PAIR = Credentials("AKID", "secret")


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch, tmp_path):
    """No AWS configuration but the test's own."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def sent(auth, *, method="POST", url=URL + "/", library=httpx, **parts):
    """The request as it leaves a client with this auth."""
    seen = []

    def answer(request):
        seen.append(request)
        return library.Response(200)

    with library.Client(auth=auth, transport=library.MockTransport(answer)) as client:
        client.request(method, url, **parts)
    return seen[0]


def accepted(request, *, region="eu-central-1", pair=PAIR):
    """Lets the local Function URL's check look at a request; it raises if it refuses."""
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
    """What httpx and httpx2 make of a URL is signed as it goes out."""
    request = sent(SigV4Auth(credentials=PAIR), url=URL + path, library=library, content=b"body")
    assert accepted(request).access_key == "AKID"


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_the_signature_covers_the_method(method):
    """Any method is signed, with a body or without."""
    accepted(sent(SigV4Auth(credentials=PAIR), method=method))


def test_a_streamed_body_is_signed():
    """A body that comes in pieces is read before it is signed."""
    request = sent(SigV4Auth(credentials=PAIR), content=iter([b"one ", b"two"]))
    assert request.headers["x-amz-content-sha256"] == hashlib.sha256(b"one two").hexdigest()
    accepted(request)


def test_an_api_key_gives_way():
    """The Authorization header of an SDK is replaced."""
    request = sent(SigV4Auth(credentials=PAIR), headers={"authorization": "Bearer sk-123"})
    assert request.headers["authorization"].startswith("AWS4-HMAC-SHA256 ")
    accepted(request)


def test_headers_that_proxies_change_are_not_signed():
    """A user agent that is changed on the way breaks nothing."""
    request = sent(SigV4Auth(credentials=PAIR), headers={"user-agent": "a"}, json={})
    request.headers["user-agent"] = "b"
    request.headers["accept-encoding"] = "identity"
    accepted(request)


def test_a_session_token_is_sent_and_signed():
    """Temporary credentials carry their token."""
    request = sent(SigV4Auth(credentials=Credentials("AKID", "secret", "token")))
    assert accepted(request).session_token == "token"
    assert "x-amz-security-token" in request.headers["authorization"]


def test_the_signature_covers_the_headers_that_change_the_meaning():
    """The host, the content type and each `x-amz-` header; not what a proxy may change."""
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
    accepted(request)


@pytest.mark.parametrize("name", ["content-type", "x-amz-meta-team"])
def test_a_signed_header_that_is_changed_on_the_way_is_refused(name):
    """The endpoint's check recomputes the signature with the changed value."""
    headers = {"content-type": "application/json", "x-amz-meta-team": "search"}
    request = sent(SigV4Auth(credentials=PAIR), headers=headers, content=b"{}")
    request.headers[name] = "changed"
    with pytest.raises(SignatureError):
        accepted(request)


@pytest.mark.parametrize(
    "url", ["https://example.com/", "https://lambda-url.eu-central-1.on.aws.example.com/"]
)
def test_other_hosts_get_no_signature(url):
    """A request that an SDK sends elsewhere through the same client goes out as it is."""
    request = sent(SigV4Auth(credentials=PAIR), url=url, headers={"authorization": "Bearer x"})
    assert request.headers["authorization"] == "Bearer x"
    assert "x-amz-date" not in request.headers


def test_own_domains_are_named():
    """A domain in front of a Function URL is signed for once it is named, with its region."""
    auth = SigV4Auth(credentials=PAIR, hosts=["embed.example.com"], region="eu-west-1")
    accepted(sent(auth, url="https://embed.example.com/"), region="eu-west-1")


def test_a_domain_without_a_region_is_an_error():
    """The message says what to give."""
    auth = SigV4Auth(credentials=PAIR, hosts=["embed.example.com"])
    with pytest.raises(ConfigurationError, match="Give region=, or set AWS_REGION"):
        sent(auth, url="https://embed.example.com/")


def test_the_region_is_the_urls(monkeypatch):
    """The URL's own region wins over the configured one; elsewhere that one counts."""
    monkeypatch.setenv("AWS_REGION", "ap-south-1")
    assert region_of("abc.lambda-url.eu-west-3.on.aws") == "eu-west-3"
    assert region_of("embed.example.com") == "ap-south-1"
    monkeypatch.delenv("AWS_REGION")
    assert region_of("127.0.0.1") == "us-east-1"


def test_credentials_come_from_a_profile(tmp_path):
    """A profile of the configuration files is read by botocore."""
    (tmp_path / "credentials").write_text(
        "[team]\naws_access_key_id = AKID\naws_secret_access_key = secret\n"
    )
    accepted(sent(SigV4Auth(profile="team")))


def test_credentials_come_from_the_environment(monkeypatch):
    """As for every AWS program."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    accepted(sent(SigV4Auth()))


def test_credentials_come_from_a_given_session():
    """A session of one's own is asked instead."""
    session = botocore.session.Session()
    session.set_credentials("AKID", "secret")
    accepted(sent(SigV4Auth(session=session)))


def test_this_machine_needs_no_credentials():
    """For a local URL the pair is local / local, and a profile's key is never shown to it."""
    request = sent(SigV4Auth(), url="http://127.0.0.1:9000/")
    accepted(request, region="us-east-1", pair=Credentials("local", "local"))


def test_no_credentials_is_a_clear_error():
    """Nothing found: the message says what to set."""
    with pytest.raises(CredentialsError, match="No AWS credentials were found: set AWS_ACCESS"):
        sent(SigV4Auth())


def test_an_unknown_profile_is_a_clear_error():
    """Botocore's own words, as an error of this package."""
    with pytest.raises(CredentialsError, match="config profile"):
        sent(SigV4Auth(profile="nobody"))


def test_two_sources_of_credentials_are_an_error():
    """It would not be clear which counts."""
    with pytest.raises(ConfigurationError, match="one of profile, session and credentials"):
        SigV4Auth(profile="a", credentials=PAIR)


def expiring(keys):
    """Credentials that are about to expire each time, and come anew as the next of some keys."""

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


def test_credentials_are_refreshed_while_it_runs():
    """Each request asks for credentials that are good now."""
    auth = SigV4Auth(credentials=expiring(iter(["FIRST", "SECOND", "THIRD"])))
    keys = [sent(auth).headers["authorization"].split("=")[1].split("/")[0] for _ in range(2)]
    assert keys == ["SECOND", "THIRD"]


def test_credentials_are_refreshed_asynchronously():
    """The same for asynchronous clients."""
    auth = SigV4Auth(credentials=expiring(iter(["FIRST", "SECOND"])))

    async def send():
        transport = httpx.MockTransport(lambda request: httpx.Response(200, request=request))
        async with httpx.AsyncClient(auth=auth, transport=transport) as client:
            return (await client.post(URL + "/", json={})).request

    request = asyncio.run(send())
    accepted(request, pair=Credentials("SECOND", "secret"))


def test_httpx2_is_not_needed():
    """Where only httpx is installed, nothing is missing."""
    program = (
        "import sys; sys.modules['httpx2'] = None\n"
        "import httpx\n"
        "from embedding_client import SigV4Auth\n"
        "assert isinstance(SigV4Auth(), httpx.Auth)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
