"""Credentials, DNS, TLS, and the answers to an unsigned and to a signed request."""

import ssl
from datetime import timedelta

import httpx
import pytest

from embedding_client.doctor.access import (
    check_credentials,
    check_dns,
    check_signed,
    check_tls,
    check_unsigned,
    judge_certificate,
    judge_signed,
    judge_unsigned,
)
from embedding_client.doctor.facts import NoAnswer
from embedding_client.doctor.findings import SkippedError, State, warning
from embedding_client.doctor.outside import Certificate, Reply

from .conftest import NOW, URL, identify

VECTOR = b'{"embedding": [0.6, 0.8]}'


def raises(error):
    def raise_it(*_):
        raise error

    return raise_it


def test_the_caller_and_the_region_are_named(aws, facts):
    """By STS."""
    identify(aws)
    found = check_credentials(facts())
    assert found.state == State.OK
    assert found.found == ("arn:aws:sts::123456789012:assumed-role/caller/me in eu-central-1")


def test_refused_credentials_are_ill(aws, facts):
    """With AWS's reason, and how to log in."""
    aws.refuses("sts", "get_caller_identity", "ExpiredToken", "The token is expired")
    found = check_credentials(facts())
    assert (found.state, found.found) == (State.ILL, "ExpiredToken: The token is expired")
    assert "aws sso login" in found.advice


def test_a_missing_region_is_ill(facts):
    """Without it no API can be asked."""
    found = check_credentials(facts(environment="dev", url=None, region=None))
    assert (found.state, found.found) == (State.ILL, "no region")
    assert "--region" in found.advice


def test_a_local_url_needs_no_credentials_of_aws(facts):
    """AWS is not asked."""
    found = check_credentials(facts(url="http://127.0.0.1:9000"))
    assert found.state == State.OK
    assert "local and local" in found.found


def test_dns(facts, monkeypatch):
    """A host without an address is ill."""
    monkeypatch.setattr("embedding_client.doctor.access.getproxies", dict)
    assert check_dns(facts()).found.endswith(".on.aws: 192.0.2.1")
    found = check_dns(facts(resolve=raises(OSError("unknown"))))
    assert found.state == State.ILL
    assert "has no address (unknown)" in found.found


def test_behind_a_proxy_dns_and_tls_are_skipped(facts, monkeypatch):
    """The proxy resolves and connects."""
    monkeypatch.setattr(
        "embedding_client.doctor.access.getproxies", lambda: {"https": "http://proxy"}
    )
    monkeypatch.setattr("embedding_client.doctor.access.proxy_bypass", lambda _: False)
    for check in (check_dns, check_tls):
        with pytest.raises(SkippedError, match="a proxy resolves and connects"):
            check(facts())


def test_tls(facts, monkeypatch):
    """A connection without a valid certificate is ill; plain HTTP was allowed by an option."""
    monkeypatch.setattr("embedding_client.doctor.access.getproxies", dict)
    assert check_tls(facts()).found == "TLSv1.3, certificate valid for 365 days"
    invalid = ssl.SSLCertVerificationError("certificate")
    invalid.verify_message = "self-signed certificate"
    found = check_tls(facts(handshake=raises(invalid)))
    assert found.state == State.ILL
    assert found.found == "the certificate is not valid: self-signed certificate"
    found = check_tls(facts(handshake=raises(ConnectionRefusedError("refused"))))
    assert (found.state, found.found) == (State.ILL, "no TLS connection (refused)")
    found = check_tls(facts(url=URL.replace("https", "http")))
    assert (found.state, found.found) == (State.WARNING, "plain HTTP")
    with pytest.raises(SkippedError, match="plain HTTP on this machine"):
        check_tls(facts(url="http://localhost:9000"))


def test_a_certificate_that_expires_soon_is_a_warning():
    """Two weeks before."""
    soon = judge_certificate(Certificate("TLSv1.3", NOW + timedelta(days=13)), NOW)
    later = judge_certificate(Certificate("TLSv1.3", NOW + timedelta(days=15)), NOW)
    assert (soon.state, later.state) == (State.WARNING, State.OK)


@pytest.mark.parametrize(
    ("status", "state"),
    [
        (401, State.OK),
        (403, State.OK),
        (200, State.ILL),
        (400, State.ILL),
        (429, State.WARNING),
        (502, State.WARNING),
    ],
)
def test_an_unsigned_request_must_be_refused(status, state):
    """Anything else reached the function, or may have."""
    found = judge_unsigned(Reply(status, {}, b"", 1))
    assert found.state == state
    assert str(status) in found.found


def test_an_unsigned_request_has_no_signature(facts):
    """The header of the signer is absent."""
    seen = []

    def answer(request):
        seen.append("authorization" in request.headers)
        return httpx.Response(403)

    asked = facts(answer)
    assert check_unsigned(asked).state == State.OK
    assert check_signed(asked).state == State.ILL
    assert seen == [False, True]


def test_a_signed_request_is_answered_with_a_vector(facts):
    """Its length is named."""
    found = check_signed(facts(lambda _: httpx.Response(200, content=VECTOR)))
    assert found.state == State.OK
    assert found.found.startswith("200, a vector of 2 numbers in ")


@pytest.mark.parametrize("body", [b"<html>", b"[]", b'{"a": 1}', b'{"embedding": 1}'])
def test_an_answer_without_a_vector_is_ill(facts, body):
    """Something else answers at this URL, and the checks of vectors are skipped."""
    asked = facts(lambda _: httpx.Response(200, content=body))
    found = check_signed(asked)
    assert (found.state, found.found) == (State.ILL, "200 without a vector")
    with pytest.raises(SkippedError, match="no vector in answer"):
        asked.answered()


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "give one of the endpoint's API keys: --api-key-env VARIABLE"),
        (403, "see permissions below"),
        (429, "no concurrency is left: docs/runbook.md#throttles"),
        (502, "the function crashes or does not start: docs/runbook.md#errors"),
        (504, "the function took too long: docs/runbook.md#durationp99"),
        (500, "docs/runbook.md#url5xx; the log has this request id"),
    ],
)
def test_any_other_answer_is_ill(status, advice):
    """With the request's id and where to look."""
    found = judge_signed(Reply(status, {"x-request-id": "abc"}, b"", 1), NOW)
    assert (found.state, found.found, found.advice) == (
        State.ILL,
        f"{status} (request abc)",
        advice,
    )


def test_a_refused_deployer_is_a_warning():
    """Who deploys need not be a caller; a crash or a wrong clock is ill even so."""
    late = {"date": "Sun, 22 Nov 2026 12:10:00 GMT"}
    for status, headers, state in (
        (403, {}, State.WARNING),
        (403, late, State.ILL),
        (502, {}, State.ILL),
    ):
        assert judge_signed(Reply(status, headers, b"", 1), NOW, refused=warning).state == state


def test_a_wrong_clock_is_recognized():
    """By the time in the answer, which AWS writes."""
    reply = Reply(403, {"date": "Sun, 22 Nov 2026 12:10:00 GMT"}, b"", 1)
    found = judge_signed(reply, NOW)
    assert found.advice == "set this machine's clock: it differs from AWS's by 600 s"


def test_no_answer_is_ill(facts):
    """With the reason."""
    found = check_signed(facts(raises(httpx.ConnectError("refused"))))
    assert (found.state, found.found) == (State.ILL, "no answer (ConnectError: refused)")
    assert judge_unsigned(NoAnswer("ReadTimeout")).state == State.ILL
