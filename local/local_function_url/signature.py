"""AWS Signature Version 4, checked as a Function URL with IAM auth checks it.

The signature is recomputed with botocore's own canonical request, string to sign and signature,
over the headers that the caller says it signed and over the body that arrived. What differs is
refused as AWS refuses it: 403, the same error types, bodies of the same shape.

    SignatureError
    ├── no Authorization at all                     AccessDeniedException        {"Message": …}
    ├── not a SigV4 header, or a part is missing    IncompleteSignatureException {"message": …}
    ├── an access key that is not ours              UnrecognizedClientException  {"message": …}
    └── wrong scope, too old, or another signature  InvalidSignatureException    {"message": …}

Source: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qsl, quote, unquote

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.compat import HTTPHeaders
from botocore.credentials import Credentials

__all__ = ["Caller", "SignatureError", "SignedRequest", "Verifier"]

ALGORITHM = "AWS4-HMAC-SHA256"
SERVICE = "lambda"
# Lambda's own messages say it: "(… - 5 min.)" for the past, "(… + 5 min.)" for the future.
CLOCK_SKEW = timedelta(minutes=5)
# The longest that a presigned request may claim to live: seven days.
LONGEST_EXPIRY = timedelta(days=7)

_FORBIDDEN = (
    "Forbidden. For troubleshooting Function URL authorization issues, see: "
    "https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html"
)
_MISMATCH = (
    "The request signature we calculated does not match the signature you provided. Check your AWS "
    "Secret Access Key and signing method. Consult the service documentation for details."
)


class SignatureError(Exception):
    """A request that IAM auth turns away: always 403.

    Attributes:
        error_type: what AWS puts in the `x-amzn-ErrorType` header.
        body: the JSON object of the answer.
    """

    def __init__(self, error_type: str, message: str, *, key: str = "message") -> None:
        super().__init__(message)
        self.error_type = error_type
        self.body = {key: message}


@dataclass(frozen=True, kw_only=True)
class SignedRequest:
    """What a signature covers, as it arrived: nothing decoded, nothing normalised.

    Attributes:
        method: the HTTP method.
        target: path and query as on the request line.
        headers: names in lower case; repeated headers joined by commas.
        body: the bytes received.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Who signed.

    Attributes:
        access_key: the id of the key pair.
        session_token: the token of temporary credentials, or None.
    """

    access_key: str
    session_token: str | None


@dataclass(frozen=True, kw_only=True)
class _Claim:
    """A signature as the caller sent it, in the header or in the query."""

    access_key: str
    scope: tuple[str, ...]  # date, region, service, "aws4_request"
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str  # yyyymmddThhmmssZ
    expires: timedelta
    session_token: str | None
    target: str  # without X-Amz-Signature


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
        claim = _claim_of(request)
        if claim.access_key != self._credentials.access_key:
            raise SignatureError(
                "UnrecognizedClientException",
                "The security token included in the request is invalid.",
            )
        self._check_scope(claim)
        _check_age(claim, now or datetime.now(UTC))
        if not hmac.compare_digest(self._signature(request, claim), claim.signature):
            raise _invalid(_MISMATCH)
        return Caller(access_key=claim.access_key, session_token=claim.session_token)

    def _check_scope(self, claim: _Claim) -> None:
        date, region, service, terminator = claim.scope
        if date != claim.timestamp[:8]:
            raise _invalid(
                "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date "
                f"from HTTP: '{date}' != '{claim.timestamp[:8]}', from '{claim.timestamp}'."
            )
        if region != self._region:
            raise _invalid(
                f"Credential should be scoped to a valid region: '{self._region}', not '{region}'."
            )
        if service != SERVICE:
            raise _invalid(f"Credential should be scoped to correct service: '{SERVICE}'.")
        if terminator != "aws4_request":
            raise _invalid("Credential should be scoped with a valid terminator: 'aws4_request'.")

    def _signature(self, request: SignedRequest, claim: _Claim) -> str:
        declared = request.headers.get("x-amz-content-sha256")
        if declared is not None and declared != hashlib.sha256(request.body).hexdigest():
            # Also UNSIGNED-PAYLOAD: Lambda takes no unsigned payloads.
            raise _invalid(_MISMATCH)
        covered = AWSRequest(
            method=request.method,
            url=f"http://{request.headers.get('host', '')}{claim.target}",
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
        self, credentials: Credentials, region: str, request: SignedRequest, claim: _Claim
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


def _claim_of(request: SignedRequest) -> _Claim:
    query = request.target.partition("?")[2]
    authorization = request.headers.get("authorization")
    if authorization is not None:
        return _from_header(request, authorization)
    if re.search(r"(^|&)X-Amz-Signature=", query):
        return _from_query(request, query)
    raise SignatureError("AccessDeniedException", _FORBIDDEN, key="Message")


def _from_header(request: SignedRequest, authorization: str) -> _Claim:
    algorithm, _, parameters = authorization.partition(" ")
    parts = dict(part.strip().partition("=")[::2] for part in parameters.split(","))
    missing = [name for name in ("Credential", "Signature", "SignedHeaders") if not parts.get(name)]
    if algorithm != ALGORITHM or missing:
        wanted = " ".join(
            f"Authorization header requires '{name}' parameter."
            for name in missing or ["Credential"]
        )
        raise _incomplete(wanted)
    if "x-amz-date" in request.headers:
        timestamp = request.headers["x-amz-date"]
    elif "date" in request.headers:
        timestamp = _iso_basic(request.headers["date"])
    else:
        raise _incomplete(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."
        )
    access_key, scope = _credential(parts["Credential"])
    return _Claim(
        access_key=access_key,
        scope=scope,
        signed_headers=_signed_headers(parts["SignedHeaders"]),
        signature=parts["Signature"],
        timestamp=timestamp,
        expires=CLOCK_SKEW,
        session_token=request.headers.get("x-amz-security-token"),
        target=request.target,
    )


def _from_query(request: SignedRequest, query: str) -> _Claim:
    parts = dict(parse_qsl(query, keep_blank_values=True))
    names = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")
    missing = [f"X-Amz-{name}" for name in names if not parts.get(f"X-Amz-{name}")]
    if missing or parts["X-Amz-Algorithm"] != ALGORITHM:
        wanted = ", ".join(f"'{name}'" for name in missing or ["X-Amz-Algorithm"])
        raise _incomplete(
            f"AWS query-string parameters must include {wanted}. "
            "Re-examine the query-string parameters."
        )
    if not parts["X-Amz-Expires"].isascii() or not parts["X-Amz-Expires"].isdigit():
        raise _incomplete("X-Amz-Expires should be a number.")
    expires = timedelta(seconds=min(int(parts["X-Amz-Expires"]), 10**9))
    if expires > LONGEST_EXPIRY:
        raise _incomplete("X-Amz-Expires must be less than a week (in seconds) that is 604800.")
    unsigned = "&".join(
        pair for pair in query.split("&") if not pair.startswith("X-Amz-Signature=")
    )
    access_key, scope = _credential(parts["X-Amz-Credential"])
    return _Claim(
        access_key=access_key,
        scope=scope,
        signed_headers=_signed_headers(parts["X-Amz-SignedHeaders"]),
        signature=parts["X-Amz-Signature"],
        timestamp=parts["X-Amz-Date"],
        expires=expires,
        session_token=parts.get("X-Amz-Security-Token"),
        target=f"{request.target.partition('?')[0]}?{unsigned}",
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
        # AWS insists: a signature that leaves the host out could be replayed at another endpoint.
        raise _invalid("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
    return signed


def _check_age(claim: _Claim, now: datetime) -> None:
    try:
        signed_at = datetime.strptime(claim.timestamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        raise _incomplete(
            f"Date must be in ISO-8601 'basic format'. Got '{claim.timestamp}'. See http://en.wikipedia.org/wiki/ISO_8601"
        ) from None
    stamp = claim.timestamp
    if signed_at + claim.expires < now:
        minutes = claim.expires // timedelta(minutes=1)
        raise _invalid(
            f"Signature expired: {stamp} is now earlier than {_basic(now - claim.expires)} "
            f"({_basic(now)} - {minutes} min.)"
        )
    if signed_at - CLOCK_SKEW > now:
        raise _invalid(
            f"Signature not yet current: {stamp} is still later than {_basic(now + CLOCK_SKEW)} "
            f"({_basic(now)} + 5 min.)"
        )


def _iso_basic(http_date: str) -> str:
    try:
        return _basic(parsedate_to_datetime(http_date).astimezone(UTC))
    except ValueError:
        return http_date  # refused with the date's own message


def _basic(moment: datetime) -> str:
    return moment.strftime("%Y%m%dT%H%M%SZ")


def _invalid(message: str) -> SignatureError:
    return SignatureError("InvalidSignatureException", message)


def _incomplete(message: str) -> SignatureError:
    return SignatureError("IncompleteSignatureException", message)
