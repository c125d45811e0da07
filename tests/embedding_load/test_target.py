"""Where requests go, and with which headers."""

import httpx
import pytest

from embedding_client.errors import ConfigurationError
from embedding_load.target import target

URL = "https://abc.lambda-url.eu-west-1.on.aws"


def to(url=URL, *, sign=True, key_variable=None, region=None, **options):
    return target(url, sign=sign, key_variable=key_variable, profile=None, region=region, **options)


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    for name in ("AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


def test_the_signature_is_that_of_the_client():
    """For the same body at the same second, an httpx client sends the same headers."""
    made = to()
    request = httpx.Request(
        "POST", made.url, content=b"{}", headers={"content-type": "application/json"}
    )
    (signed,) = made.auth.sync_auth_flow(request)
    headers = made.headers(b"{}")
    for name in ("host", "content-type", "x-amz-content-sha256"):
        assert headers[name] == signed.headers[name]
    if headers["X-Amz-Date"] == signed.headers["x-amz-date"]:
        assert headers["Authorization"] == signed.headers["authorization"]
    assert "/eu-west-1/lambda/aws4_request" in headers["Authorization"]


@pytest.mark.parametrize(
    ("url", "sign"),
    [
        ("https://abc.execute-api.eu-west-1.amazonaws.com/prod", True),
        ("https://server.example.com", False),
    ],
)
def test_a_key_replaces_the_signature(monkeypatch, url, sign):
    """The answer to the question before the test names the header of the key."""
    monkeypatch.setenv("LOAD_TEST_KEY", "ek-1")
    made = to(url, sign=sign, key_variable="LOAD_TEST_KEY")
    challenge = {} if sign else {"www-authenticate": "Bearer"}
    answer = httpx.MockTransport(lambda _: httpx.Response(401, headers=challenge))
    with httpx.Client(transport=answer, auth=made.auth) as client:
        client.get(made.url)
    headers = made.headers(b"{}")
    name, value = ("x-api-key", "ek-1") if sign else ("authorization", "Bearer ek-1")
    assert headers[name] == value
    assert len({"x-api-key", "authorization", "Authorization"} & set(headers)) == 1
    assert "ek-1" not in repr(made)
    # A server is paid by the hour.
    assert (made.region, made.gateway) == (("eu-west-1", True) if sign else (None, False))


@pytest.mark.parametrize("key_variable", [None, "LOAD_TEST_KEY"])
def test_nothing_is_sent_in_the_clear(monkeypatch, key_variable):
    """As by the client, unless it is allowed."""
    monkeypatch.setenv("LOAD_TEST_KEY", "ek-1")
    url = "http://server.example.com"
    with pytest.raises(ConfigurationError, match="would travel in the clear"):
        to(url, sign=False, key_variable=key_variable)
    allowed = to(url, sign=False, key_variable=key_variable, allow_plain_http=True)
    assert ("x-api-key" in allowed.headers(b"{}")) is (key_variable is not None)


def test_without_signature_and_key_there_is_no_authorization():
    """For a server that needs none."""
    headers = to("https://server:8000", sign=False).headers(b"{}")
    assert headers == {"content-type": "application/json", "host": "server:8000"}


def test_a_custom_domain_needs_a_region():
    """The signature names it."""
    with pytest.raises(ConfigurationError, match=r"region of 'embed.example.com' is unknown"):
        to("https://embed.example.com")
    assert to("https://embed.example.com", region="eu-central-1").region == "eu-central-1"


def test_the_environments_proxy_is_used(monkeypatch):
    """As the client does, except for the hosts of NO_PROXY."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "")
    assert to().proxy == "http://proxy:3128"
    monkeypatch.setenv("NO_PROXY", ".on.aws")
    assert to().proxy is None
