"""Verification of signatures, without a server."""

import hashlib
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


def as_received(request: AWSRequest, *, body: bytes) -> SignedRequest:
    prepared = request.prepare()
    headers = {name.lower(): str(value) for name, value in prepared.headers.items()}
    target = prepared.url.removeprefix(URL)
    return SignedRequest(
        method="POST",
        target=target,
        headers={"host": "abc.lambda-url.eu-west-1.on.aws", **headers},
        body=body,
    )


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
    return as_received(request, body=body)


def changed(request: SignedRequest, **changes: object) -> SignedRequest:
    fields = {name: getattr(request, name) for name in ("method", "target", "headers", "body")}
    return SignedRequest(**{**fields, **changes})


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


def test_accepts_a_session_token():
    """Temporary credentials of the pair are accepted. The caller has their token."""
    caller = verifier().verify(signed(credentials=Credentials("AKIDEXAMPLE", "a secret", "token")))
    assert caller.session_token == "token"


def test_accepts_a_body_hash_header():
    """The header x-amz-content-sha256 has the hash of the body."""
    digest = hashlib.sha256(b"body").hexdigest()
    verifier().verify(signed(body=b"body", headers={"x-amz-content-sha256": digest}))


def test_accepts_a_signed_user_agent():
    """Other clients may sign headers that botocore does not sign."""

    class Eager(SigV4Auth):
        def headers_to_sign(self, request):
            headers = super().headers_to_sign(request)
            headers["user-agent"] = "a browser"
            return headers

    request = AWSRequest("POST", URL + "/", data=b"", headers={"User-Agent": "a browser"})
    Eager(PAIR, "lambda", "eu-west-1").add_auth(request)
    received = as_received(request, body=b"")
    assert "user-agent" in received.headers["authorization"]
    verifier().verify(received)
    other = changed(received, headers={**received.headers, "user-agent": "another"})
    assert "does not match" in str(refusal(other))


def test_refuses_an_unsigned_request():
    """The message links to AWS's page on Function URLs."""
    error = refusal(SignedRequest(method="GET", target="/", headers={"host": "x"}, body=b""))
    assert error.error_type == "AccessDeniedException"
    assert error.body["Message"].startswith("Forbidden. For troubleshooting Function URL")


def test_refuses_an_unknown_key():
    """Another access key is rejected with AWS's message."""
    error = refusal(signed(credentials=Credentials("AKIDOTHER", "a secret")))
    assert error.error_type == "UnrecognizedClientException"
    assert error.body == {"message": "The security token included in the request is invalid."}


def test_refuses_a_wrong_secret():
    """The signature of another secret does not match."""
    error = refusal(signed(credentials=Credentials("AKIDEXAMPLE", "another secret")))
    assert error.error_type == "InvalidSignatureException"
    assert "request signature we calculated does not match" in error.body["message"]


@pytest.mark.parametrize(
    "changes",
    [
        {"body": b'{"text": "hellO"}'},
        {"body": b""},
        {"target": "/similar"},
        {"target": "/?size=3"},
        {"method": "PUT"},
    ],
)
def test_refuses_an_altered_request(changes):
    """A body, path, query or method that was not signed does not match."""
    assert "does not match" in str(refusal(changed(signed(), **changes)))


@pytest.mark.parametrize("declared", ["UNSIGNED-PAYLOAD", hashlib.sha256(b"other").hexdigest()])
def test_refuses_a_body_hash_of_another_body(declared):
    """The hash must be that of the body. Unsigned payloads are rejected."""
    request = signed(body=b"body", headers={"x-amz-content-sha256": declared})
    assert "does not match" in str(refusal(request))


@pytest.mark.parametrize(
    ("seconds", "message"), [(301, "Signature expired"), (-301, "not yet current")]
)
def test_refuses_a_signature_of_another_time(seconds, message):
    """A signature is valid five minutes before and after its time."""
    error = refusal(signed(), now=datetime.now(UTC) + timedelta(seconds=seconds))
    assert error.error_type == "InvalidSignatureException"
    assert message in error.body["message"]
    assert "5 min.)" in error.body["message"]


@pytest.mark.parametrize("seconds", [298, -298])
def test_accepts_a_small_clock_skew(seconds):
    """A signature is valid within five minutes."""
    verifier().verify(signed(), now=datetime.now(UTC) + timedelta(seconds=seconds))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"region": "us-east-1"}, "/eu-west-1/lambda/aws4_request', not '"),
        ({"service": "execute-api"}, "/eu-west-1/execute-api/aws4_request'."),
    ],
)
def test_refuses_another_scope(wrong, message):
    """The signature must be for Lambda, in the URL's region."""
    assert message in str(refusal(signed(**wrong)))


SCOPE = "Credential=AKIDEXAMPLE/20260101/eu-west-1/lambda/aws4_request"


@pytest.mark.parametrize(
    ("authorization", "date", "message"),
    [
        ("AWS4-HMAC-SHA256", True, "requires 'Credential' parameter"),
        ("AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=host, Signature=x", True, "exactly 5"),
        (f"AWS4-HMAC-SHA256 {SCOPE}, SignedHeaders=x, Signature=x", True, "'SignedHeader'"),
        (
            f"AWS4-HMAC-SHA256 {SCOPE}, SignedHeaders=host, Signature=x",
            False,
            "a 'X-Amz-Date' header",
        ),
    ],
)
def test_refuses_a_broken_header(authorization, date, message):
    """The message names the missing part."""
    headers = {"host": "x", "authorization": authorization}
    dated = {**headers, "x-amz-date": "20260101T000000Z"}
    assert message in str(refusal(changed(signed(), headers=dated if date else headers)))
