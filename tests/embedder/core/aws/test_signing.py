"""The signer of the endpoint's own calls to AWS, compared with botocore's."""

from urllib.parse import quote

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given, settings
from hypothesis import strategies as st

from embedder.core.aws.signing import Credentials, Scope, encode_query, sign

#: AWS's own example of a key pair.
KEYS: tuple[str, str] = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


def by_botocore(
    *, method: str, url: str, headers: dict[str, str], body: bytes, scope: Scope, token: str | None
) -> str:
    """Return the header `Authorization` that botocore computes for the same request."""
    request = AWSRequest(method=method, url=url, data=body, headers=headers)
    request.context["timestamp"] = headers["x-amz-date"]
    kind = S3SigV4Auth if scope.service == "s3" else SigV4Auth
    signer = kind(BotocoreCredentials(*KEYS, token), scope.service, scope.region)
    text = signer.string_to_sign(request, signer.canonical_request(request))
    names = signer.signed_headers(signer.headers_to_sign(request))
    return (
        f"AWS4-HMAC-SHA256 Credential={signer.scope(request)}, SignedHeaders={names}, "
        f"Signature={signer.signature(text, request)}"
    )


PLAIN = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)


@settings(max_examples=200, deadline=None)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "HEAD"]),
    path=st.lists(st.sampled_from(["a", "b c", "é", "1:2", "x+y", "~"]), max_size=4),
    query=st.dictionaries(PLAIN, st.text(max_size=10), max_size=3),
    value=PLAIN,
    body=st.binary(max_size=50),
    token=st.none() | PLAIN,
    service=st.sampled_from(["s3vectors", "s3"]),
)
def test_the_signature_is_botocores(
    *,
    method: str,
    path: list[str],
    query: dict[str, str],
    value: str,
    body: bytes,
    token: str | None,
    service: str,
) -> None:
    """Path, query, headers, body and token are covered as botocore covers them."""
    scope = Scope("eu-central-1", service)
    sent = "/" + "/".join(quote(part, safe="") for part in path)
    encoded = encode_query(query)
    headers = {"host": "example.com", "x-amz-meta-a": value, "content-type": "text/plain"}
    signed = sign(
        method,
        sent,
        headers,
        body,
        credentials=Credentials(*KEYS, token),
        scope=scope,
        query=encoded,
    )
    authorization = signed.pop("authorization")
    url = f"https://example.com{sent}" + (encoded and f"?{encoded}")
    assert authorization == by_botocore(
        method=method, url=url, headers=signed, body=body, scope=scope, token=token
    )


def signed_at(now: float | None, **headers: str) -> dict[str, str]:
    return sign(
        "GET",
        "/",
        {"host": "h", **headers},
        b"",
        credentials=Credentials(*KEYS),
        scope=Scope("us-east-1", "s3vectors"),
        now=now,
    )


def test_the_time_is_in_the_signature() -> None:
    """The date header is the given time, or the current one."""
    at_start = signed_at(0.0)
    assert at_start["x-amz-date"] == "19700101T000000Z"
    assert "19700101/us-east-1/s3vectors/aws4_request" in at_start["authorization"]
    assert signed_at(None)["x-amz-date"] > signed_at(1e9)["x-amz-date"]


def test_a_trace_shows_no_secret() -> None:
    """The text of credentials has neither the secret key nor the token."""
    shown = repr(Credentials(*KEYS, "token-of-a-session"))
    assert "wJal" not in shown
    assert "token-of" not in shown


@pytest.mark.parametrize("value", ["  two   spaces ", "a\tb"])
def test_spaces_in_a_header_are_signed_as_one(value: str) -> None:
    """Servers may fold white space, so the signature covers a folded form."""
    folded = " ".join(value.split())
    assert (
        signed_at(0.0, accept=value)["authorization"]
        == (signed_at(0.0, accept=folded)["authorization"])
    )
