"""The signer of the endpoint's own calls to AWS, compared with botocore's, and its credentials."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as BotocoreCredentials
from hypothesis import given, settings
from hypothesis import strategies as st

from embedder.core.aws import Credentials, CredentialsProvider, RoleCredentialsError, sign
from tests.embedder.core.aws.http_server import Server, serving
from tests.fixtures.waiting import PATIENCE

REGION, SERVICE = "eu-central-1", "s3vectors"
#: AWS's own example of a key pair.
KEYS: tuple[str, str] = ("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")


def by_botocore(
    *, method: str, url: str, headers: dict[str, str], body: bytes, token: str | None
) -> str:
    """Return the header `Authorization` that botocore computes for the same request."""
    request = AWSRequest(method=method, url=url, data=body, headers=headers)
    request.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(BotocoreCredentials(*KEYS, token), SERVICE, REGION)
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
    value=PLAIN,
    body=st.binary(max_size=50),
    token=st.none() | PLAIN,
)
def test_the_signature_is_botocores(*, method, path, value, body, token):
    """Path, headers, body and token are covered as botocore covers them."""
    sent = "/" + "/".join(quote(segment, safe="") for segment in path)
    headers = {"host": "example.com", "x-amz-meta-a": value, "content-type": "text/plain"}
    signed = sign(
        method,
        sent,
        headers,
        body,
        credentials=Credentials(*KEYS, token),
        region=REGION,
        service=SERVICE,
    )
    authorization = signed.pop("authorization")
    assert authorization == by_botocore(
        method=method, url=f"https://example.com{sent}", headers=signed, body=body, token=token
    )


def signed_at(now: float | None, **headers: str) -> dict[str, str]:
    return sign(
        "GET",
        "/",
        {"host": "h", **headers},
        b"",
        credentials=Credentials(*KEYS),
        region=REGION,
        service=SERVICE,
        now=now,
    )


def test_the_time_is_in_the_signature():
    """The date header is the given time, or the current one."""
    at_start = signed_at(0.0)
    assert at_start["x-amz-date"] == "19700101T000000Z"
    assert "19700101/eu-central-1/s3vectors/aws4_request" in at_start["authorization"]
    assert signed_at(None)["x-amz-date"] > signed_at(1e9)["x-amz-date"]


def test_a_trace_shows_no_secret():
    """The text of credentials has neither the secret key nor the token."""
    shown = repr(Credentials(*KEYS, "token-of-a-session"))
    assert "wJal" not in shown
    assert "token-of" not in shown


@pytest.mark.parametrize("value", ["  two   spaces ", "a\tb"])
def test_spaces_in_a_header_are_signed_as_one(value):
    """Servers may fold white space, so the signature covers a folded form."""
    folded = signed_at(0.0, accept=" ".join(value.split()))
    assert signed_at(0.0, accept=value)["authorization"] == folded["authorization"]


def answer_of(key: str, *, minutes: float = 60) -> tuple[int, bytes]:
    expires = datetime.now(UTC) + timedelta(minutes=minutes)
    value = {
        "AccessKeyId": key,
        "SecretAccessKey": "s",
        "Token": "t",
        "Expiration": expires.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "RoleArn": "arn:aws:iam::123456789012:role/r",
    }
    return 200, json.dumps(value).encode()


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as state:
        state.answer = lambda: answer_of(f"K{len(state.requests)}")
        yield state


@pytest.fixture
def provider(server: Server) -> CredentialsProvider:
    return CredentialsProvider({"AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url})


def test_lambdas_variables_are_used():
    """Without SnapStart, Lambda's environment has the keys of the role, read at each request."""
    environ = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_SESSION_TOKEN": "c"}
    provider = CredentialsProvider(environ)
    assert provider.get() == Credentials("a", "b", "c")
    del environ["AWS_SESSION_TOKEN"]
    assert provider.get() == Credentials("a", "b", None)


def test_snap_start_asks_the_container_endpoint_with_its_token(server):
    """The endpoint is asked once, with the token, until the credentials are about to expire."""
    provider = CredentialsProvider(
        {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{server.url}/credentials?v=1",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "secret",
        }
    )
    assert provider.get() == provider.get() == Credentials("K1", "s", "t")
    ((_, target, headers, _),) = server.requests
    assert (target, headers["authorization"]) == ("/credentials?v=1", "secret")


def test_credentials_are_replaced_before_they_expire(server, provider):
    """Credentials with less than five minutes left are asked for again."""
    server.answer = lambda: answer_of(f"K{len(server.requests)}", minutes=4)
    assert [provider.get().access_key for _ in range(2)] == ["K1", "K2"]


def test_one_of_many_threads_asks(server, provider):
    """The endpoint limits how often it may be asked; the others wait for its answer."""
    barrier = threading.Barrier(8)

    def get() -> str:
        barrier.wait(timeout=PATIENCE)
        return provider.get().access_key

    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(get) for _ in range(8)]
        assert {key.result() for key in answers} == {"K1"}
    assert len(server.requests) == 1


def test_no_thread_waits_while_the_old_credentials_are_valid(server, provider):
    """One asks for new ones, and the others use the old ones."""
    server.answer = lambda: answer_of("K1", minutes=4)
    provider.get()
    requested, go_on = threading.Event(), threading.Event()

    def answer() -> tuple[int, bytes]:
        requested.set()
        assert go_on.wait(timeout=PATIENCE)
        return answer_of("K2")

    server.answer = answer
    with ThreadPoolExecutor(1) as threads:
        asking = threads.submit(provider.get)
        assert requested.wait(timeout=PATIENCE)
        assert provider.get().access_key == "K1"
        go_on.set()
        assert asking.result().access_key == "K2"
    assert provider.get().access_key == "K2"


def test_an_endpoint_that_fails_for_a_moment_costs_nothing(server, provider):
    """While the old credentials are valid, they are used on."""
    server.answer = lambda: answer_of("K1", minutes=4)
    provider.get()
    server.answer = lambda: (500, b"")
    assert provider.get().access_key == "K1"


def test_a_restored_snapshot_asks_again(provider):
    """Credentials that were forgotten are asked for again."""
    provider.get()
    provider.forget()
    assert provider.get().access_key == "K2"


def test_the_token_may_be_in_a_file(server, tmp_path):
    """EKS writes the token into a file and replaces it there."""
    token = tmp_path / "token"
    token.write_text("from-file\n")
    environ = {
        "AWS_CONTAINER_CREDENTIALS_FULL_URI": server.url,
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(token),
    }
    CredentialsProvider(environ).get()
    assert server.requests[0][2]["authorization"] == "from-file"
    token.unlink()
    with pytest.raises(RoleCredentialsError, match="TOKEN_FILE cannot be read"):
        CredentialsProvider(environ).get()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((403, b""), "responded with 403"),
        ((200, b"not JSON"), "has no credentials"),
        ((200, b"[]"), "has no credentials"),
        ((200, b'{"AccessKeyId": "a", "SecretAccessKey": "b"}'), "has no credentials"),
        ((200, b'{"AccessKeyId": "a", "SecretAccessKey": "b", "Expiration": "x"}'), "has no"),
    ],
)
def test_an_invalid_answer_is_refused(server, provider, answer, message):
    """Without valid credentials there is an error, which quotes nothing of the answer."""
    server.answer = lambda: answer
    with pytest.raises(RoleCredentialsError, match=message):
        provider.get()


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, "no AWS credentials in the environment"),
        ({"AWS_ACCESS_KEY_ID": "a"}, "no AWS credentials in the environment"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://example.com/"}, "must be https://"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://127.0.0.1:9/"}, "did not respond"),
    ],
)
def test_without_credentials_the_error_says_why(environ, message):
    """A token is never sent to a strange host without TLS."""
    with pytest.raises(RoleCredentialsError, match=message):
        CredentialsProvider(environ).get()
