"""The CloudFront function that checks keys, run by Node with a stand-in of its key value store."""

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from embedding_kit.front import distribution

CODE = Path(distribution.__file__).with_name("check_key.js")
KEY = "kit-0123456789abcdef"
HASH = hashlib.sha256(b'{"text": "hello"}').hexdigest()
REFUSED = {
    "message": "The header x-api-key is missing or has no valid API key.",
    "type": "invalid_request_error",
    "param": None,
    "code": "invalid_api_key",
}


def stored(*keys: str) -> dict[str, str]:
    """Return what the key value store has of keys."""
    return {hashlib.sha256(key.encode()).hexdigest(): "search" for key in keys}


def event(method: str = "POST", **headers: str) -> dict[str, Any]:
    """Return a viewer-request event, as CloudFront makes it."""
    return {
        "version": "1.0",
        "context": {"eventType": "viewer-request"},
        "viewer": {"ip": "203.0.113.7"},
        "request": {
            "method": method,
            "uri": "/v1/embeddings",
            "querystring": {},
            "headers": {
                name.replace("_", "-"): {"value": value} for name, value in headers.items()
            },
            "cookies": {},
        },
    }


@pytest.fixture(scope="module")
def run() -> Callable[..., list[dict[str, Any]]]:
    """Return a function that runs the code on events."""

    def answers(*events: dict[str, Any], keys: dict[str, str] | None) -> list[dict[str, Any]]:
        done = subprocess.run(
            [os.environ["JSII_NODE"], str(Path(__file__).with_name("run_check_key.mjs"))],
            input=json.dumps({"code": CODE.read_text(), "keys": keys, "events": list(events)}),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: list[dict[str, Any]] = json.loads(done.stdout)
        return found

    return answers


def test_a_request_with_a_valid_key_and_a_hash_passes_without_the_key(run):
    """All else of the request reaches the function as the caller sent it."""
    sent = event(x_api_key=KEY, x_amz_content_sha256=HASH, content_type="application/json")
    (passed,) = run(sent, keys=stored(KEY))
    expected = {
        **sent["request"],
        "headers": {
            name: value for name, value in sent["request"]["headers"].items() if name != "x-api-key"
        },
    }
    assert passed == expected


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_request_without_a_body_needs_no_hash(run, method):
    """CloudFront signs it by itself."""
    (passed,) = run(event(method, x_api_key=KEY), keys=stored(KEY))
    assert passed["method"] == method
    assert passed["headers"] == {}


def test_no_key_and_a_wrong_key_are_refused_in_the_form_of_openais_errors(run):
    """Also a key in other case, a stored hash itself, and any key of an empty store."""
    (hashed,) = stored(KEY)
    wrong = ["", "wrong", KEY.upper(), f" {KEY}", hashed]
    refused = run(
        event(x_amz_content_sha256=HASH),
        *(event(x_api_key=key, x_amz_content_sha256=HASH) for key in wrong),
        keys=stored(KEY, "another"),
    )
    refused += run(event(x_api_key=KEY, x_amz_content_sha256=HASH), keys={})
    assert len(refused) == 7
    for answer in refused:
        assert answer["statusCode"] == 401
        assert json.loads(answer["body"]["data"]) == {"error": REFUSED}
        assert answer["headers"]["content-type"] == {"value": "application/json"}
        assert answer["headers"]["cache-control"] == {"value": "no-store"}


@pytest.mark.parametrize("hashed", [None, "", "UNSIGNED-PAYLOAD", HASH.upper(), HASH[:-1]])
def test_a_body_without_its_hash_is_refused_with_what_is_missing(run, hashed):
    """Lambda would refuse it too, with an error about a signature that the caller did not make."""
    headers = {"x_api_key": KEY} | ({} if hashed is None else {"x_amz_content_sha256": hashed})
    (answer,) = run(event(**headers), keys=stored(KEY))
    assert answer["statusCode"] == 400
    error = json.loads(answer["body"]["data"])["error"]
    assert error["code"] == "missing_body_hash"
    assert "SHA-256 of the body, as 64 hexadecimal digits" in error["message"]


def test_without_a_readable_store_no_request_passes(run):
    """The function fails, and CloudFront answers 503."""
    (answer,) = run(event(x_api_key=KEY, x_amz_content_sha256=HASH), keys=None)
    assert answer == {"error": "the key value store cannot be read"}


def test_the_code_fits_into_a_cloudfront_function():
    """CloudFront takes 10 KB."""
    assert CODE.stat().st_size < 10_000
