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

SERVICE = "lambda"

_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS "
    "Secret Access Key and signing method. Consult the service documentation for details."
)
_ALGORITHM = "AWS4-HMAC-SHA256"
# From Lambda's messages: "(… - 5 min.)" for the past, "(… + 5 min.)" for the future.
_CLOCK_SKEW = timedelta(minutes=5)

_FORBIDDEN = (
    "Forbidden. For troubleshooting Function URL authorization issues, see: "
    "https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html"
)


class SignatureError(Exception):
    """A request that IAM auth rejects. The status is always 403."""

    def __init__(self, error_type: str, message: str, *, key: str = "message") -> None:
        super().__init__(message)
        self.error_type = error_type
        self.body = {key: message}


@dataclass(frozen=True, kw_only=True)
class SignedRequest:
    """The parts of a request that a signature covers, as received.

    Attributes:
        method: The HTTP method.
        target: The path and the query of the request line, not decoded.
        headers: The headers. Names are in lower case, and repeated headers are joined by commas.
        body: The body.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class _Parsed:
    """The signature that the caller sent."""

    access_key: str
    scope: tuple[str, ...]  # date, region, service, "aws4_request"
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str  # yyyymmddThhmmssZ
    session_token: str | None


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The identity that signed a request."""

    access_key: str
    session_token: str | None


class Verifier:
    """Accepts requests signed with one key pair for one region, with any session token."""

    def __init__(self, *, credentials: Credentials, region: str, service: str = SERVICE) -> None:
        self._credentials = Credentials(credentials.access_key, credentials.secret_key)
        self._region = region
        self._service = service

    def verify(self, request: SignedRequest, *, now: datetime | None = None) -> Caller:
        """Verify the signature of a request. Return its caller."""
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
            raise _invalid(_MISMATCH)
        return Caller(access_key=parsed.access_key, session_token=parsed.session_token)

    def _check_scope(self, parsed: _Parsed) -> None:
        expected = (parsed.timestamp[:8], self._region, self._service, "aws4_request")
        if parsed.scope != expected:
            raise _invalid(
                f"Credential should be scoped to '{'/'.join(expected)}', "
                f"not '{'/'.join(parsed.scope)}'."
            )

    def _signature(self, request: SignedRequest, parsed: _Parsed) -> str:
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
        covered.context["timestamp"] = parsed.timestamp
        signer = _AsSigned(self._credentials, request, parsed)
        return str(
            signer.signature(
                signer.string_to_sign(covered, signer.canonical_request(covered)), covered
            )
        )


class _AsSigned(SigV4Auth):  # type: ignore[misc]  # botocore has no types
    """botocore's signer for exactly the headers that the caller signed."""

    def __init__(self, credentials: Credentials, request: SignedRequest, parsed: _Parsed) -> None:
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


def _check_age(parsed: _Parsed, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(parsed.timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise _incomplete(
            f"Date must be in ISO-8601 'basic format'. Got '{parsed.timestamp}'. See http://en.wikipedia.org/wiki/ISO_8601"
        ) from None
    stamp = parsed.timestamp
    if signed_at + _CLOCK_SKEW < now:
        raise _invalid(
            f"Signature expired: {stamp} is now earlier than {_basic_format(now - _CLOCK_SKEW)} "
            f"({_basic_format(now)} - 5 min.)"
        )
    if signed_at - _CLOCK_SKEW > now:
        raise _invalid(
            f"Signature not yet current: {stamp} is still later than "
            f"{_basic_format(now + _CLOCK_SKEW)} ({_basic_format(now)} + 5 min.)"
        )


def parse_signature(request: SignedRequest) -> _Parsed:
    """Return the signature in the Authorization header of a request."""
    authorization = request.headers.get("authorization")
    if authorization is None:
        raise SignatureError("AccessDeniedException", _FORBIDDEN, key="Message")
    algorithm, _, parameters = authorization.partition(" ")
    parts = dict(part.strip().partition("=")[::2] for part in parameters.split(","))
    missing = [name for name in ("Credential", "Signature", "SignedHeaders") if not parts.get(name)]
    if algorithm != _ALGORITHM or missing:
        wanted = " ".join(
            f"Authorization header requires '{name}' parameter."
            for name in missing or ["Credential"]
        )
        raise _incomplete(wanted)
    if "x-amz-date" not in request.headers:
        # AWS accepts a Date header, too, which no client sends.
        raise _incomplete("Authorization header requires existence of a 'X-Amz-Date' header.")
    access_key, scope = _credential(parts["Credential"])
    return _Parsed(
        access_key=access_key,
        scope=scope,
        signed_headers=_signed_headers(parts["SignedHeaders"]),
        signature=parts["Signature"],
        timestamp=request.headers["x-amz-date"],
        session_token=request.headers.get("x-amz-security-token"),
    )


def _credential(credential: str) -> tuple[str, tuple[str, ...]]:
    access_key, *scope = unquote(credential).rsplit("/", 4)
    if len(scope) != 4:
        raise _incomplete(
            f"Credential must have exactly 5 slash-delimited elements, "
            f"e.g. keyid/date/region/service/term, got '{credential}'"
        )
    return access_key, tuple(scope)


def _signed_headers(names: str) -> tuple[str, ...]:
    signed = tuple(names.split(";"))
    if "host" not in signed:
        # Required by AWS. Without the host, a request could be replayed at another endpoint.
        raise _invalid("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
    return signed


def _basic_format(moment: datetime) -> str:
    """Format a time as in signatures: yyyymmddThhmmssZ."""
    return moment.strftime("%Y%m%dT%H%M%SZ")


def _invalid(message: str) -> SignatureError:
    """Return the error for a signature that is not valid."""
    return SignatureError("InvalidSignatureException", message)


def _incomplete(message: str) -> SignatureError:
    """Return the error for a signature with a missing part."""
    return SignatureError("IncompleteSignatureException", message)
