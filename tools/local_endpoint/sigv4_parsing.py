"""Parses the signature of a request, from the Authorization header or the query.

    SignatureError
    ├── no signature at all                         AccessDeniedException        {"Message": …}
    ├── not a SigV4 header, or a part is missing    IncompleteSignatureException {"message": …}
    ├── an unknown access key                       UnrecognizedClientException  {"message": …}
    └── wrong scope, expired, or another signature  InvalidSignatureException    {"message": …}

`tools.local_endpoint.signature` verifies the signature.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qsl, unquote

__all__ = [
    "CLOCK_SKEW",
    "ParsedSignature",
    "SignatureError",
    "SignedRequest",
    "basic_format",
    "incomplete_signature",
    "invalid_signature",
    "parse_signature",
]

ALGORITHM = "AWS4-HMAC-SHA256"
# From Lambda's messages: "(… - 5 min.)" for the past, "(… + 5 min.)" for the future.
CLOCK_SKEW = timedelta(minutes=5)
# The maximum lifetime of a presigned request: seven days.
LONGEST_EXPIRY = timedelta(days=7)

_FORBIDDEN = (
    "Forbidden. For troubleshooting Function URL authorization issues, see: "
    "https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html"
)


class SignatureError(Exception):
    """A request that IAM auth rejects. The status is always 403.

    Attributes:
        error_type: The value of AWS's `x-amzn-ErrorType` header.
        body: The JSON object of the response.
    """

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
class ParsedSignature:
    """The signature that the caller sent, in the header or in the query."""

    access_key: str
    scope: tuple[str, ...]  # date, region, service, "aws4_request"
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str  # yyyymmddThhmmssZ
    expires: timedelta
    session_token: str | None
    target: str  # without X-Amz-Signature


def parse_signature(request: SignedRequest) -> ParsedSignature:
    """Return the signature of a request.

    Raises:
        SignatureError: If it is missing or incomplete.
    """
    query = request.target.partition("?")[2]
    authorization = request.headers.get("authorization")
    if authorization is not None:
        return _from_header(request, authorization)
    if re.search(r"(^|&)X-Amz-Signature=", query):
        return _from_query(request, query)
    raise SignatureError("AccessDeniedException", _FORBIDDEN, key="Message")


def _from_header(request: SignedRequest, authorization: str) -> ParsedSignature:
    algorithm, _, parameters = authorization.partition(" ")
    parts = dict(part.strip().partition("=")[::2] for part in parameters.split(","))
    missing = [name for name in ("Credential", "Signature", "SignedHeaders") if not parts.get(name)]
    if algorithm != ALGORITHM or missing:
        wanted = " ".join(
            f"Authorization header requires '{name}' parameter."
            for name in missing or ["Credential"]
        )
        raise incomplete_signature(wanted)
    if "x-amz-date" in request.headers:
        timestamp = request.headers["x-amz-date"]
    elif "date" in request.headers:
        timestamp = _iso_basic(request.headers["date"])
    else:
        raise incomplete_signature(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."
        )
    access_key, scope = _credential(parts["Credential"])
    return ParsedSignature(
        access_key=access_key,
        scope=scope,
        signed_headers=_signed_headers(parts["SignedHeaders"]),
        signature=parts["Signature"],
        timestamp=timestamp,
        expires=CLOCK_SKEW,
        session_token=request.headers.get("x-amz-security-token"),
        target=request.target,
    )


def _from_query(request: SignedRequest, query: str) -> ParsedSignature:
    parts = dict(parse_qsl(query, keep_blank_values=True))
    names = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")
    missing = [f"X-Amz-{name}" for name in names if not parts.get(f"X-Amz-{name}")]
    if missing or parts["X-Amz-Algorithm"] != ALGORITHM:
        wanted = ", ".join(f"'{name}'" for name in missing or ["X-Amz-Algorithm"])
        raise incomplete_signature(
            f"AWS query-string parameters must include {wanted}. "
            "Re-examine the query-string parameters."
        )
    if not parts["X-Amz-Expires"].isascii() or not parts["X-Amz-Expires"].isdigit():
        raise incomplete_signature("X-Amz-Expires should be a number.")
    expires = timedelta(seconds=min(int(parts["X-Amz-Expires"]), 10**9))
    if expires > LONGEST_EXPIRY:
        raise incomplete_signature(
            "X-Amz-Expires must be less than a week (in seconds) that is 604800."
        )
    unsigned = "&".join(
        pair for pair in query.split("&") if not pair.startswith("X-Amz-Signature=")
    )
    access_key, scope = _credential(parts["X-Amz-Credential"])
    return ParsedSignature(
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
        raise incomplete_signature(
            f"Credential must have exactly 5 slash-delimited elements, "
            f"e.g. keyid/date/region/service/term, got '{credential}'"
        )
    return access_key, tuple(scope)


def _signed_headers(names: str) -> tuple[str, ...]:
    signed = tuple(names.split(";"))
    if "host" not in signed:
        # Required by AWS. Without the host, a request could be replayed at another endpoint.
        raise invalid_signature(
            "'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."
        )
    return signed


def _iso_basic(http_date: str) -> str:
    try:
        return basic_format(parsedate_to_datetime(http_date).astimezone(UTC))
    except ValueError:
        return http_date  # the verifier rejects it


def basic_format(moment: datetime) -> str:
    """Format a time as in signatures: yyyymmddThhmmssZ."""
    return moment.strftime("%Y%m%dT%H%M%SZ")


def invalid_signature(message: str) -> SignatureError:
    """Return the error for a signature that is not valid."""
    return SignatureError("InvalidSignatureException", message)


def incomplete_signature(message: str) -> SignatureError:
    """Return the error for a signature with a missing part."""
    return SignatureError("IncompleteSignatureException", message)
