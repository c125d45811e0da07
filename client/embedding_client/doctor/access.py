"""Credentials, DNS, TLS, and the answers to an unsigned and to a signed request."""

import json
import ssl
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from embedding_client.doctor.facts import Facts, NoAnswer
from embedding_client.doctor.findings import Finding, SkippedError, ill, ok, warning
from embedding_client.doctor.outside import Certificate, NoCredentialsError, Reply

__all__ = [
    "check_credentials",
    "check_dns",
    "check_signed",
    "check_tls",
    "check_unsigned",
    "judge_certificate",
    "judge_identity",
    "judge_signed",
    "judge_unsigned",
]

_LOGIN = (
    "log in (`aws sso login`), choose a profile (--profile or AWS_PROFILE), or set "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
#: AWS refuses a signature whose time is further from its own.
_SKEW = timedelta(minutes=5)
_EXPIRY = timedelta(days=14)


def check_credentials(facts: Facts) -> Finding:
    """Ask STS who the caller is."""
    if facts.is_local:
        return ok("a URL of this machine: AWS_ACCESS_KEY_ID and its secret, or local and local")
    try:
        return judge_identity(facts.identity(), str(facts.outside.region))
    except NoCredentialsError as error:
        if facts.asked.url is not None and not facts.takes_signatures:
            raise SkippedError("the endpoint takes no signature") from error
        if facts.outside.region is None:
            return ill("no region", "give --region, or set AWS_REGION")
        return ill(error.reason, _LOGIN)


def judge_identity(identity: dict[str, Any], region: str) -> Finding:
    """Name the caller and the region."""
    return ok(f"{identity['Arn']} in {region}", arn=identity["Arn"], region=region)


def check_dns(facts: Facts) -> Finding:
    """Resolve the URL's host."""
    host, port = _place(facts)
    try:
        addresses = facts.outside.resolve(host, port)
    except OSError as error:
        return ill(
            f"{host} has no address ({error})",
            "compare the URL with the output Url of the stack: a deleted URL has no address. "
            "Otherwise check this machine's DNS",
        )
    return ok(f"{host}: {', '.join(addresses[:3])}", addresses=addresses)


def check_tls(facts: Facts) -> Finding:
    """Connect with TLS."""
    if urlsplit(facts.url()).scheme != "https":
        if facts.is_local:
            raise SkippedError("plain HTTP on this machine")
        return warning("plain HTTP", "use https://: plain HTTP does not encrypt texts and vectors")
    host, port = _place(facts)
    try:
        certificate = facts.outside.handshake(host, port)
    except ssl.SSLCertVerificationError as error:
        return ill(
            f"the certificate is not valid: {error.verify_message}",
            "if your company has a proxy, install its certificate; "
            "otherwise do not send texts to this host",
        )
    except OSError as error:
        return ill(f"no TLS connection ({error})", "check firewalls and proxies for port 443")
    return judge_certificate(certificate, facts.outside.now())


def judge_certificate(certificate: Certificate, now: datetime) -> Finding:
    """Judge when the certificate expires."""
    left = certificate.expires - now
    found = f"{certificate.version}, certificate valid for {left.days} days"
    if left < _EXPIRY:
        return warning(found, "renew the certificate of the domain in front of the URL")
    return ok(found, version=certificate.version, days=left.days)


def check_unsigned(facts: Facts) -> Finding:
    """Send a request without a signature."""
    reply = facts.unsigned()
    if isinstance(reply, Reply) and reply.status == 200 and facts.is_server():
        return warning(
            "200: a server without keys, which answers everybody who reaches it",
            "give it keys (docs/server.md#api-keys), or keep it in a network that you trust",
            status=200,
        )
    return judge_unsigned(reply)


def judge_unsigned(reply: Reply | NoAnswer) -> Finding:
    """Judge the answer to an unsigned request; only 403 is right, or 401 without an API key."""
    if isinstance(reply, NoAnswer):
        return ill(f"no answer ({reply.reason})", "see dns and tls")
    if reply.status in {401, 403}:
        return ok(str(reply.status), status=reply.status)
    if reply.status in {429, 502, 503, 504}:
        return warning(f"{reply.status} instead of 403", "run it again", status=reply.status)
    return ill(
        f"{reply.status} instead of 403: requests without a signature reach the function",
        "set the URL's AuthType to AWS_IAM, for example with `scripts/deploy`",
        status=reply.status,
    )


def check_signed(facts: Facts) -> Finding:
    """Send a signed request for a vector."""
    return judge_signed(
        facts.signed(), facts.outside.now(), refused=warning if facts.asked.deployer else ill
    )


def judge_signed(
    reply: Reply | NoAnswer, now: datetime, *, refused: Callable[..., Finding] = ill
) -> Finding:
    """Judge the answer to a signed request; only a vector is right.

    Args:
        reply: The answer.
        now: The time.
        refused: Makes the finding of a caller who is not allowed.
    """
    if isinstance(reply, NoAnswer):
        return ill(
            f"no answer ({reply.reason})", "see dns and tls; otherwise docs/runbook.md#outage"
        )
    if reply.status == 200:
        size = _size(reply.body)
        if size is None:
            return ill("200 without a vector", "the URL is not that of an endpoint of this kit")
        return ok(
            f"200, a vector of {size} numbers in {reply.milliseconds:,.0f} ms",
            status=200,
            dimensions=size,
            milliseconds=round(reply.milliseconds, 1),
        )
    request = reply.headers.get("x-request-id") or reply.headers.get("x-amzn-requestid") or "none"
    is_skewed = abs(_skew(reply, now)) > _SKEW
    finding = refused if reply.status == 403 and not is_skewed else ill
    return finding(f"{reply.status} (request {request})", _advice(reply, now), status=reply.status)


def _size(body: bytes) -> int | None:
    """Return the length of the vector in an answer; None without one."""
    try:
        return len(json.loads(body)["embedding"])
    except (ValueError, TypeError, KeyError):
        return None


def _advice(reply: Reply, now: datetime) -> str:
    skew = _skew(reply, now)
    if reply.status == 403 and abs(skew) > _SKEW:
        return f"set this machine's clock: it differs from AWS's by {skew.total_seconds():.0f} s"
    return {
        401: "give one of the endpoint's API keys: --api-key-env VARIABLE",
        403: "see permissions below",
        429: "no concurrency is left: docs/runbook.md#throttles",
        502: "the function crashes or does not start: docs/runbook.md#errors",
        504: "the function took too long: docs/runbook.md#durationp99",
    }.get(reply.status, "docs/runbook.md#url5xx; the log has this request id")


def _skew(reply: Reply, now: datetime) -> timedelta:
    date = reply.headers.get("date")
    return parsedate_to_datetime(date).astimezone(UTC) - now if date else timedelta()


def _place(facts: Facts) -> tuple[str, int]:
    parts = urlsplit(facts.url())
    host = parts.hostname or ""
    if parts.scheme in getproxies() and not facts.is_local and not proxy_bypass(host):
        raise SkippedError("a proxy resolves and connects")
    return host, parts.port or (443 if parts.scheme == "https" else 80)
