"""Verification of signatures, without a server."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tools.local_endpoint.signature import SignatureError, SignedRequest, Verifier

PAIR = Credentials("AKIDEXAMPLE", "a secret")
URL = "http://abc.lambda-url.eu-west-1.on.aws"


def verifier() -> Verifier:
    return Verifier(credentials=PAIR, region="eu-west-1")


def signed(
    *,
    path: str = "/",
    body: bytes = b'{"text": "hello"}',
    credentials: Credentials = PAIR,
    service: str = "lambda",
    region: str = "eu-west-1",
    headers: dict[str, str] | None = None,
) -> SignedRequest:
    request = AWSRequest("POST", URL + path, data=body, headers=headers or {})
    SigV4Auth(credentials, service, region).add_auth(request)
    prepared = request.prepare()
    received = {name.lower(): str(value) for name, value in prepared.headers.items()}
    received["host"] = URL.removeprefix("http://")
    target = prepared.url.removeprefix(URL)
    return SignedRequest(method="POST", target=target, headers=received, body=body)


def refusal(request: SignedRequest, *, now: datetime | None = None) -> SignatureError:
    with pytest.raises(SignatureError) as caught:
        verifier().verify(request, now=now)
    return caught.value


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1/embeddings",
        "/?a=b&c=%20d&a=2",
        "/a%20b/%C3%A9",
        "/a//b/../c",
        "/x?a-b=1&a=2&empty=",
    ],
)
def test_accepts_signatures_of_botocore(path):
    """For any path and query."""
    assert verifier().verify(signed(path=path)).access_key == "AKIDEXAMPLE"


@pytest.mark.parametrize("seconds", [298, -298])
def test_accepts_a_session_token_and_a_small_clock_skew(seconds):
    """Temporary credentials of the pair are accepted, within five minutes."""
    request = signed(credentials=Credentials("AKIDEXAMPLE", "a secret", "token"))
    now = datetime.now(UTC) + timedelta(seconds=seconds)
    assert verifier().verify(request, now=now).session_token == "token"


def test_accepts_a_body_hash_header():
    """The header x-amz-content-sha256 has the hash of the body."""
    digest = hashlib.sha256(b"body").hexdigest()
    verifier().verify(signed(body=b"body", headers={"x-amz-content-sha256": digest}))


def declared(digest: str) -> SignedRequest:
    return signed(body=b"body", headers={"x-amz-content-sha256": digest})


def authorized(authorization: str, **headers: str) -> SignedRequest:
    return replace(signed(), headers={"host": "x", "authorization": authorization, **headers})


DATE = {"x-amz-date": "20260101T000000Z"}
V4 = "AWS4-HMAC-SHA256"
SCOPE = f"{V4} Credential=AKIDEXAMPLE/20260101/eu-west-1/lambda/aws4_request"
INVALID, INCOMPLETE = "InvalidSignatureException", "IncompleteSignatureException"
#: When the requests below are signed.
NOW = datetime.now(UTC)
MISMATCH = "The request signature we calculated does not match"


@pytest.mark.parametrize(
    ("request_", "error_type", "message"),
    [
        (
            replace(signed(), headers={"host": "x"}),
            "AccessDeniedException",
            "Forbidden. For troubleshooting Function URL",
        ),
        (
            signed(credentials=Credentials("AKIDOTHER", "a secret")),
            "UnrecognizedClientException",
            "The security token included in the request is invalid.",
        ),
        (signed(credentials=Credentials("AKIDEXAMPLE", "another secret")), INVALID, MISMATCH),
        (replace(signed(), body=b'{"text": "hellO"}'), INVALID, MISMATCH),
        (replace(signed(), body=b""), INVALID, MISMATCH),
        (replace(signed(), target="/similar"), INVALID, MISMATCH),
        (replace(signed(), target="/?size=3"), INVALID, MISMATCH),
        (replace(signed(), method="PUT"), INVALID, MISMATCH),
        (declared("UNSIGNED-PAYLOAD"), INVALID, MISMATCH),
        (declared(hashlib.sha256(b"other").hexdigest()), INVALID, MISMATCH),
        (signed(region="us-east-1"), INVALID, "/eu-west-1/lambda/aws4_request', not '"),
        (signed(service="execute-api"), INVALID, "/eu-west-1/execute-api/aws4_request'."),
        (authorized(V4, **DATE), INCOMPLETE, "requires 'Credential' parameter"),
        (
            authorized(f"{V4} Credential=a/b, SignedHeaders=host, Signature=x", **DATE),
            INCOMPLETE,
            "exactly 5",
        ),
        (authorized(f"{SCOPE}, SignedHeaders=x, Signature=x", **DATE), INVALID, "'SignedHeader'"),
        (
            authorized(f"{SCOPE}, SignedHeaders=host, Signature=x"),
            INCOMPLETE,
            "a 'X-Amz-Date' header",
        ),
    ],
)
def test_a_refusal_is_that_of_aws(request_, error_type, message):
    """A request without a signature, with a wrong one, or with a part missing."""
    error = refusal(request_, now=NOW)
    assert error.error_type == error_type
    (found,) = error.body.values()
    assert message in found
    assert list(error.body) == ["Message" if error_type == "AccessDeniedException" else "message"]


@pytest.mark.parametrize(
    ("seconds", "message"), [(301, "Signature expired"), (-301, "not yet current")]
)
def test_refuses_a_signature_of_another_time(seconds, message):
    """A signature is valid five minutes before and after its time."""
    error = refusal(signed(), now=datetime.now(UTC) + timedelta(seconds=seconds))
    assert error.error_type == INVALID
    assert message in error.body["message"]
    assert "5 min.)" in error.body["message"]
