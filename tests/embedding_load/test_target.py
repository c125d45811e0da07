"""Where requests go, and with which headers."""

import httpx
import pytest

from embedding_client.errors import ConfigurationError
from embedding_load.target import target

URL = "https://abc.lambda-url.eu-west-1.on.aws"


def to(url=URL, *, sign=True, key_variable=None, region=None):
    return target(url, sign=sign, key_variable=key_variable, profile=None, region=region)


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
    ("url", "sign", "name", "value"),
    [
        ("https://abc.execute-api.eu-west-1.amazonaws.com/prod", True, "x-api-key", "ek-1"),
        ("https://server.example.com", False, "authorization", "Bearer ek-1"),
    ],
)
def test_a_key_replaces_the_signature(monkeypatch, url, sign, name, value):
    """The key is one of API Gateway or of a server, and the request before the test has it, too."""
    monkeypatch.setenv("LOAD_TEST_KEY", "ek-1")
    made = to(url, sign=sign, key_variable="LOAD_TEST_KEY")
    headers = made.headers(b"{}")
    assert headers[name] == value
    assert len({"x-api-key", "authorization", "Authorization"} & set(headers)) == 1
    (asked,) = made.auth.sync_auth_flow(httpx.Request("GET", made.url))
    assert asked.headers[name] == value
    assert "ek-1" not in repr(made)
    # A server is paid by the hour.
    assert (made.region, made.gateway) == (("eu-west-1", True) if sign else (None, False))


def test_a_key_is_not_sent_in_the_clear(monkeypatch):
    """As by the client."""
    monkeypatch.setenv("LOAD_TEST_KEY", "ek-1")
    made = to("http://server.example.com", sign=False, key_variable="LOAD_TEST_KEY")
    with pytest.raises(ConfigurationError, match="would travel in the clear"):
        made.headers(b"{}")


def test_without_signature_and_key_there_is_no_authorization():
    """For a server that needs none."""
    headers = to("http://server:8000", sign=False).headers(b"{}")
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
