"""AWS Signature Version 4, checked as a Function URL with IAM auth checks it.

The signature is recomputed with botocore's own canonical request, string to sign and signature,
over the headers that the caller says it signed and over the body that arrived. What differs is
refused as AWS refuses it: 403, the same error types, bodies of the same shape.

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

from local_function_url.claims import (
    CLOCK_SKEW,
    Claim,
    SignatureError,
    SignedRequest,
    basic,
    claim_of,
    incomplete,
    invalid,
)

__all__ = ["Caller", "SignatureError", "SignedRequest", "Verifier"]

SERVICE = "lambda"

_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS "
    "Secret Access Key and signing method. Consult the service documentation for details."
)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who signed.

    Attributes:
        access_key: the id of the key pair.
        session_token: the token of temporary credentials, or None.
    """

    access_key: str
    session_token: str | None


class Verifier:
    """Accepts requests that one key pair signed for one region.

    Args:
        credentials: the key pair that is accepted; its session token, if any, is not compared, so
            temporary credentials made from the same pair pass.
        region: the region of the Function URL.
    """

    def __init__(self, *, credentials: Credentials, region: str) -> None:
        self._credentials = Credentials(credentials.access_key, credentials.secret_key)
        self._region = region

    def verify(self, request: SignedRequest, *, now: datetime | None = None) -> Caller:
        """Returns the caller, or says why the request is refused.

        Raises:
            SignatureError: with AWS's error type and body.
        """
        claim = claim_of(request)
        if claim.access_key != self._credentials.access_key:
            raise SignatureError(
                "UnrecognizedClientException",
                "The security token included in the request is invalid.",
            )
        self._check_scope(claim)
        _check_age(claim, now or datetime.now(UTC))
        computed = self._signature(request, claim)
        if not hmac.compare_digest(computed.encode(), claim.signature.encode()):
            raise invalid(_MISMATCH)
        return Caller(access_key=claim.access_key, session_token=claim.session_token)

    def _check_scope(self, claim: Claim) -> None:
        date, region, service, terminator = claim.scope
        if date != claim.timestamp[:8]:
            raise invalid(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date "
                f"from HTTP: '{date}' != '{claim.timestamp[:8]}', from '{claim.timestamp}'."
            )
        if region != self._region:
            raise invalid(
                f"Credential should be scoped to a valid region: '{self._region}', not '{region}'."
            )
        if service != SERVICE:
            raise invalid(f"Credential should be scoped to correct service: '{SERVICE}'.")
        if terminator != "aws4_request":
            raise invalid("Credential should be scoped with a valid terminator: 'aws4_request'.")

    def _signature(self, request: SignedRequest, claim: Claim) -> str:
        declared = request.headers.get("x-amz-content-sha256")
        if declared is not None and declared != hashlib.sha256(request.body).hexdigest():
            # Also UNSIGNED-PAYLOAD: Lambda takes no unsigned payloads.
            raise invalid(_MISMATCH)
        covered = AWSRequest(
            method=request.method,
            url=f"http://localhost{claim.target}",  # the host is among the headers
            data=request.body,
            headers={"X-Amz-Content-SHA256": declared} if declared else {},
        )
        covered.context["timestamp"] = claim.timestamp
        signer = _AsSigned(self._credentials, self._region, request, claim)
        return str(
            signer.signature(
                signer.string_to_sign(covered, signer.canonical_request(covered)), covered
            )
        )


class _AsSigned(SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """botocore's signer, over exactly the headers that the caller signed."""

    def __init__(
        self, credentials: Credentials, region: str, request: SignedRequest, claim: Claim
    ) -> None:
        super().__init__(credentials, SERVICE, region)
        self._headers = HTTPHeaders()
        for name in claim.signed_headers:
            self._headers[name] = request.headers.get(name, "")

    def canonical_query_string(self, request: AWSRequest) -> str:
        # botocore takes the query as it stands; AWS decodes it and encodes it again.
        query = request.url.partition("?")[2]
        split = (pair.partition("=") for pair in query.split("&") if pair)
        pairs = sorted((_encoded(name), _encoded(value)) for name, _, value in split)
        return "&".join(f"{name}={value}" for name, value in pairs)

    def headers_to_sign(self, request: AWSRequest) -> HTTPHeaders:  # noqa: ARG002  (botocore's signature)
        return self._headers


def _encoded(text: str) -> str:
    return quote(unquote(text), safe="-_.~")


def _check_age(claim: Claim, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(claim.timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise incomplete(
            f"Date must be in ISO-8601 'basic format'. Got '{claim.timestamp}'. See http://en.wikipedia.org/wiki/ISO_8601"
        ) from None
    stamp = claim.timestamp
    if signed_at + claim.expires < now:
        minutes = claim.expires // timedelta(minutes=1)
        raise invalid(
            f"Signature expired: {stamp} is now earlier than {basic(now - claim.expires)} "
            f"({basic(now)} - {minutes} min.)"
        )
    if signed_at - CLOCK_SKEW > now:
        raise invalid(
            f"Signature not yet current: {stamp} is still later than {basic(now + CLOCK_SKEW)} "
            f"({basic(now)} + 5 min.)"
        )
