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


def test_a_key_replaces_the_signature(monkeypatch):
    """Also in the question before the test."""
    monkeypatch.setenv("LOAD_TEST_KEY", "ek-1")
    made = to("http://server:8000", key_variable="LOAD_TEST_KEY")
    assert made.headers(b"{}")["authorization"] == "Bearer ek-1"
    (asked,) = made.auth.sync_auth_flow(httpx.Request("GET", made.url))
    assert asked.headers["authorization"] == "Bearer ek-1"
    assert made.region is None
    assert "ek-1" not in repr(made)


def test_without_signature_and_key_there_is_no_authorization():
    """For a server that needs none."""
    assert to("http://server:8000", sign=False).headers(b"{}") == {
        "content-type": "application/json"
    }


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
