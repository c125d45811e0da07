"""What a caller says when it signs: in the Authorization header, or in the query.

    SignatureError
    ├── no signature at all                         AccessDeniedException        {"Message": …}
    ├── not a SigV4 header, or a part is missing    IncompleteSignatureException {"message": …}
    ├── an access key that is not ours              UnrecognizedClientException  {"message": …}
    └── wrong scope, too old, or another signature  InvalidSignatureException    {"message": …}

Nothing here says whether it is true; `local_function_url.signature` does.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qsl, unquote

__all__ = [
    "CLOCK_SKEW",
    "Claim",
    "SignatureError",
    "SignedRequest",
    "basic",
    "claim_of",
    "incomplete",
    "invalid",
]

ALGORITHM = "AWS4-HMAC-SHA256"
# Lambda's own messages say it: "(… - 5 min.)" for the past, "(… + 5 min.)" for the future.
CLOCK_SKEW = timedelta(minutes=5)
# The longest that a presigned request may claim to live: seven days.
LONGEST_EXPIRY = timedelta(days=7)

_FORBIDDEN = (
    "Forbidden. For troubleshooting Function URL authorization issues, see: "
    "https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html"
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
class Claim:
    """A signature as the caller sent it, in the header or in the query."""

    access_key: str
    scope: tuple[str, ...]  # date, region, service, "aws4_request"
    signed_headers: tuple[str, ...]
    signature: str
    timestamp: str  # yyyymmddThhmmssZ
    expires: timedelta
    session_token: str | None
    target: str  # without X-Amz-Signature


def claim_of(request: SignedRequest) -> Claim:
    """Reads the signature of a request.

    Raises:
        SignatureError: there is none, or it is not whole.
    """
    query = request.target.partition("?")[2]
    authorization = request.headers.get("authorization")
    if authorization is not None:
        return _from_header(request, authorization)
    if re.search(r"(^|&)X-Amz-Signature=", query):
        return _from_query(request, query)
    raise SignatureError("AccessDeniedException", _FORBIDDEN, key="Message")


def _from_header(request: SignedRequest, authorization: str) -> Claim:
    algorithm, _, parameters = authorization.partition(" ")
    parts = dict(part.strip().partition("=")[::2] for part in parameters.split(","))
    missing = [name for name in ("Credential", "Signature", "SignedHeaders") if not parts.get(name)]
    if algorithm != ALGORITHM or missing:
        wanted = " ".join(
            f"Authorization header requires '{name}' parameter."
            for name in missing or ["Credential"]
        )
        raise incomplete(wanted)
    if "x-amz-date" in request.headers:
        timestamp = request.headers["x-amz-date"]
    elif "date" in request.headers:
        timestamp = _iso_basic(request.headers["date"])
    else:
        raise incomplete(
            "Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header."
        )
    access_key, scope = _credential(parts["Credential"])
    return Claim(
        access_key=access_key,
        scope=scope,
        signed_headers=_signed_headers(parts["SignedHeaders"]),
        signature=parts["Signature"],
        timestamp=timestamp,
        expires=CLOCK_SKEW,
        session_token=request.headers.get("x-amz-security-token"),
        target=request.target,
    )


def _from_query(request: SignedRequest, query: str) -> Claim:
    parts = dict(parse_qsl(query, keep_blank_values=True))
    names = ("Algorithm", "Credential", "Date", "Expires", "SignedHeaders", "Signature")
    missing = [f"X-Amz-{name}" for name in names if not parts.get(f"X-Amz-{name}")]
    if missing or parts["X-Amz-Algorithm"] != ALGORITHM:
        wanted = ", ".join(f"'{name}'" for name in missing or ["X-Amz-Algorithm"])
        raise incomplete(
            f"AWS query-string parameters must include {wanted}. "
            "Re-examine the query-string parameters."
        )
    if not parts["X-Amz-Expires"].isascii() or not parts["X-Amz-Expires"].isdigit():
        raise incomplete("X-Amz-Expires should be a number.")
    expires = timedelta(seconds=min(int(parts["X-Amz-Expires"]), 10**9))
    if expires > LONGEST_EXPIRY:
        raise incomplete("X-Amz-Expires must be less than a week (in seconds) that is 604800.")
    unsigned = "&".join(
        pair for pair in query.split("&") if not pair.startswith("X-Amz-Signature=")
    )
    access_key, scope = _credential(parts["X-Amz-Credential"])
    return Claim(
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
        raise incomplete(
            f"Credential must have exactly 5 slash-delimited elements, "
            f"e.g. keyid/date/region/service/term, got '{credential}'"
        )
    return access_key, tuple(scope)


def _signed_headers(names: str) -> tuple[str, ...]:
    signed = tuple(names.split(";"))
    if "host" not in signed:
        # AWS insists: a signature that leaves the host out could be replayed at another endpoint.
        raise invalid("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization.")
    return signed


def _iso_basic(http_date: str) -> str:
    try:
        return basic(parsedate_to_datetime(http_date).astimezone(UTC))
    except ValueError:
        return http_date  # refused with the date's own message


def basic(moment: datetime) -> str:
    """Writes a moment as signatures do."""
    return moment.strftime("%Y%m%dT%H%M%SZ")


def invalid(message: str) -> SignatureError:
    """Makes the error of a signature that does not hold."""
    return SignatureError("InvalidSignatureException", message)


def incomplete(message: str) -> SignatureError:
    """Makes the error of a signature that lacks something."""
    return SignatureError("IncompleteSignatureException", message)
