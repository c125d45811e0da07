"""Verifies AWS Signature Version 4 as a Function URL with IAM auth does.

botocore computes the signature again, over the headers that the caller signed and the body that was
received. If the signatures differ, the response is that of AWS: 403, with the same error types and
the same form of body.

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

from tools.local_endpoint.sigv4_parsing import (
    CLOCK_SKEW,
    ParsedSignature,
    SignatureError,
    SignedRequest,
    basic_format,
    incomplete_signature,
    invalid_signature,
    parse_signature,
)

__all__ = ["Caller", "SignatureError", "SignedRequest", "Verifier"]

SERVICE = "lambda"

_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS "
    "Secret Access Key and signing method. Consult the service documentation for details."
)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The identity that signed a request.

    Attributes:
        access_key: The access key ID.
        session_token: The token of temporary credentials, or None.
    """

    access_key: str
    session_token: str | None


class Verifier:
    """Accepts requests signed with one key pair for one region.

    Args:
        credentials: The key pair. Session tokens are not compared, so temporary credentials with
            the same key pair are accepted.
        region: The region of the Function URL.
        service: The signing name of the service.
    """

    def __init__(self, *, credentials: Credentials, region: str, service: str = SERVICE) -> None:
        self._credentials = Credentials(credentials.access_key, credentials.secret_key)
        self._region = region
        self._service = service

    def verify(self, request: SignedRequest, *, now: datetime | None = None) -> Caller:
        """Verify the signature of a request. Return its caller.

        Raises:
            SignatureError: If it is not valid, with AWS's error type and body.
        """
        parsed = parse_signature(request)
        if parsed.access_key != self._credentials.access_key:
            raise SignatureError(
                "UnrecognizedClientException",
                "The security token included in the request is invalid.",
            )
        self._check_scope(parsed)
        _check_age(parsed, now or datetime.now(UTC))
        computed = self._signature(request, parsed)
        if not hmac.compare_digest(computed.encode(), parsed.signature.encode()):
            raise invalid_signature(_MISMATCH)
        return Caller(access_key=parsed.access_key, session_token=parsed.session_token)

    def _check_scope(self, parsed: ParsedSignature) -> None:
        date, region, service, terminator = parsed.scope
        if date != parsed.timestamp[:8]:
            raise invalid_signature(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date "
                f"from HTTP: '{date}' != '{parsed.timestamp[:8]}', from '{parsed.timestamp}'."
            )
        if region != self._region:
            raise invalid_signature(
                f"Credential should be scoped to a valid region: '{self._region}', not '{region}'."
            )
        if service != self._service:
            raise invalid_signature(
                f"Credential should be scoped to correct service: '{self._service}'."
            )
        if terminator != "aws4_request":
            raise invalid_signature(
                "Credential should be scoped with a valid terminator: 'aws4_request'."
            )

    def _signature(self, request: SignedRequest, parsed: ParsedSignature) -> str:
        declared = request.headers.get("x-amz-content-sha256")
        if declared is not None and declared != hashlib.sha256(request.body).hexdigest():
            # Also for UNSIGNED-PAYLOAD, which Lambda does not accept.
            raise invalid_signature(_MISMATCH)
        covered = AWSRequest(
            method=request.method,
            url=f"http://localhost{parsed.target}",  # the host is among the headers
            data=request.body,
            headers={"X-Amz-Content-SHA256": declared} if declared else {},
        )
        covered.context["timestamp"] = parsed.timestamp
        signer = _AsSigned(self._credentials, request, parsed)
        return str(
            signer.signature(
                signer.string_to_sign(covered, signer.canonical_request(covered)), covered
            )
        )


class _AsSigned(SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """botocore's signer for exactly the headers that the caller signed."""

    def __init__(
        self, credentials: Credentials, request: SignedRequest, parsed: ParsedSignature
    ) -> None:
        # The scope is the verifier's own by now.
        super().__init__(credentials, parsed.scope[2], parsed.scope[1])
        self._headers = HTTPHeaders()
        for name in parsed.signed_headers:
            self._headers[name] = request.headers.get(name, "")

    def canonical_query_string(self, request: AWSRequest) -> str:
        # botocore uses the query unchanged. AWS decodes it and encodes it again.
        query = request.url.partition("?")[2]
        split = (pair.partition("=") for pair in query.split("&") if pair)
        pairs = sorted((_encoded(name), _encoded(value)) for name, _, value in split)
        return "&".join(f"{name}={value}" for name, value in pairs)

    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:  # noqa: ARG002  (overrides botocore)
        return self._headers


def _encoded(text: str) -> str:
    return quote(unquote(text), safe="-_.~")


def _check_age(parsed: ParsedSignature, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(parsed.timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise incomplete_signature(
            f"Date must be in ISO-8601 'basic format'. Got '{parsed.timestamp}'. See http://en.wikipedia.org/wiki/ISO_8601"
        ) from None
    stamp = parsed.timestamp
    if signed_at + parsed.expires < now:
        minutes = parsed.expires // timedelta(minutes=1)
        raise invalid_signature(
            f"Signature expired: {stamp} is now earlier than {basic_format(now - parsed.expires)} "
            f"({basic_format(now)} - {minutes} min.)"
        )
    if signed_at - CLOCK_SKEW > now:
        raise invalid_signature(
            f"Signature not yet current: {stamp} is still later than "
            f"{basic_format(now + CLOCK_SKEW)} ({basic_format(now)} + 5 min.)"
        )
