"""Verifies AWS Signature Version 4 as a Function URL with IAM auth does.

botocore computes the signature again, over the headers that the caller signed and the body that was
received. If the signatures differ, the response is that of AWS: 403, with the same error types and
the same form of body.

    SignatureError
    ├── no signature at all                         AccessDeniedException        {"Message": …}
    ├── not a SigV4 header, or a part is missing    IncompleteSignatureException {"message": …}
    ├── an unknown access key                       UnrecognizedClientException  {"message": …}
    └── wrong scope, expired, or another signature  InvalidSignatureException    {"message": …}

A signature in the query (a presigned URL), which AWS accepts, too, is none here. Source:
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote, unquote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS "
    "Secret Access Key and signing method. Consult the service documentation for details."
)
_FORBIDDEN = (
    "Forbidden. For troubleshooting Function URL authorization issues, see: "
    "https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html"
)
_TIME = "%Y%m%dT%H%M%SZ"
# From Lambda's messages: "(… - 5 min.)" for the past, "(… + 5 min.)" for the future.
_CLOCK_SKEW = timedelta(minutes=5)


class SignatureError(Exception):
    """A request that IAM auth rejects, with AWS's type of error and body. The status is 403."""

    def __init__(self, error_type: str, message: str, *, key: str = "message") -> None:
        super().__init__(message)
        self.error_type = error_type
        self.body = {key: message}


@dataclass(frozen=True, kw_only=True)
class SignedRequest:
    """The parts of a request that a signature covers, as received."""

    method: str
    #: The path and the query of the request line, not decoded.
    target: str
    #: Names are in lower case, and repeated headers are joined by commas.
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Signature:
    """The signature that the caller sent."""

    access_key: str
    scope: tuple[str, ...]  # date, region, service, "aws4_request"
    signed_headers: tuple[str, ...]
    digest: str
    timestamp: str  # yyyymmddThhmmssZ
    session_token: str | None


class Verifier:
    """Accepts requests signed with one key pair for one region, with any session token."""

    def __init__(self, *, credentials: Credentials, region: str, service: str = "lambda") -> None:
        self._credentials = Credentials(credentials.access_key, credentials.secret_key)
        self._region, self._service = region, service

    def verify(self, request: SignedRequest, *, now: datetime | None = None) -> Signature:
        """Verify the signature of a request, and return it."""
        signature = parse_signature(request)
        if signature.access_key != self._credentials.access_key:
            message = "The security token included in the request is invalid."
            raise SignatureError("UnrecognizedClientException", message)
        expected = (signature.timestamp[:8], self._region, self._service, "aws4_request")
        if signature.scope != expected:
            raise _invalid(
                f"Credential should be scoped to '{'/'.join(expected)}', "
                f"not '{'/'.join(signature.scope)}'."
            )
        _check_age(signature.timestamp, now or datetime.now(UTC))
        computed = self._digest(request, signature)
        if not hmac.compare_digest(computed.encode(), signature.digest.encode()):
            raise _invalid(_MISMATCH)
        return signature

    def _digest(self, request: SignedRequest, signature: Signature) -> str:
        declared = request.headers.get("x-amz-content-sha256")
        if declared is not None and declared != hashlib.sha256(request.body).hexdigest():
            # Also for UNSIGNED-PAYLOAD, which Lambda does not accept.
            raise _invalid(_MISMATCH)
        covered = AWSRequest(
            method=request.method,
            url=f"http://localhost{request.target}",  # the host is among the headers
            data=request.body,
            headers={"X-Amz-Content-SHA256": declared} if declared else {},
        )
        covered.context["timestamp"] = signature.timestamp
        signer = _AsSigned(self._credentials, request, signature)
        text = signer.string_to_sign(covered, signer.canonical_request(covered))
        return str(signer.signature(text, covered))


class _AsSigned(SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """botocore's signer for exactly the headers that the caller signed."""

    def __init__(
        self, credentials: Credentials, request: SignedRequest, signature: Signature
    ) -> None:
        # The scope is the verifier's own by now.
        super().__init__(credentials, signature.scope[2], signature.scope[1])
        self._headers = HTTPHeaders()
        for name in signature.signed_headers:
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


def _check_age(stamp: str, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(stamp, _TIME).replace(tzinfo=UTC)
    except ValueError:
        raise _incomplete(f"Date must be in ISO-8601 'basic format'. Got '{stamp}'.") from None
    if signed_at + _CLOCK_SKEW < now:
        raise _invalid(
            f"Signature expired: {stamp} is now earlier than {now - _CLOCK_SKEW:{_TIME}} "
            f"({now:{_TIME}} - 5 min.)"
        )
    if signed_at - _CLOCK_SKEW > now:
        raise _invalid(
            f"Signature not yet current: {stamp} is still later than "
            f"{now + _CLOCK_SKEW:{_TIME}} ({now:{_TIME}} + 5 min.)"
        )


def parse_signature(request: SignedRequest) -> Signature:
    """Return the signature in the Authorization header of a request."""
    authorization = request.headers.get("authorization")
    if authorization is None:
        raise SignatureError("AccessDeniedException", _FORBIDDEN, key="Message")
    algorithm, _, parameters = authorization.partition(" ")
    fields = dict(field.strip().partition("=")[::2] for field in parameters.split(","))
    missing = [
        name for name in ("Credential", "Signature", "SignedHeaders") if not fields.get(name)
    ]
    if algorithm != "AWS4-HMAC-SHA256" or missing:
        expected = " ".join(
            f"Authorization header requires '{name}' parameter."
            for name in missing or ["Credential"]
        )
        raise _incomplete(expected)
    if "x-amz-date" not in request.headers:
        # AWS accepts a Date header, too, which no client sends.
        raise _incomplete("Authorization header requires existence of a 'X-Amz-Date' header.")
    access_key, *scope = unquote(fields["Credential"]).rsplit("/", 4)
    if len(scope) != 4:
        raise _incomplete(
            "Credential must have exactly 5 slash-delimited elements, "
            f"e.g. keyid/date/region/service/term, got '{fields['Credential']}'"
        )
    signed_headers = tuple(fields["SignedHeaders"].split(";"))
    if "host" not in signed_headers:
        # Required by AWS. Without the host, a request could be replayed at another endpoint.
        raise _invalid("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
    return Signature(
        access_key=access_key,
        scope=tuple(scope),
        signed_headers=signed_headers,
        digest=fields["Signature"],
        timestamp=request.headers["x-amz-date"],
        session_token=request.headers.get("x-amz-security-token"),
    )


def _invalid(message: str) -> SignatureError:
    return SignatureError("InvalidSignatureException", message)


def _incomplete(message: str) -> SignatureError:
    return SignatureError("IncompleteSignatureException", message)
