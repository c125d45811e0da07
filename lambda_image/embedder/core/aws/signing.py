"""AWS Signature Version 4, for requests whose body is in memory.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import hashlib
import hmac
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote

__all__ = ["Credentials", "Scope", "encode_query", "sign"]

_ALGORITHM = "AWS4-HMAC-SHA256"
#: The characters that AWS leaves as they are.
_UNRESERVED = "-_.~"


class Credentials(NamedTuple):
    """A key pair, and the session's token if it is a temporary one."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        # The class has secrets, and a trace may show it.
        return f"Credentials({self.access_key[:4]}…)"


class Scope(NamedTuple):
    """What a signature is valid for."""

    region: str
    #: The service's signing name, such as `s3vectors`.
    service: str


def sign(
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    credentials: Credentials,
    scope: Scope,
    query: str = "",
    now: float | None = None,
) -> dict[str, str]:
    """Return the headers of a request with its signature.

    Args:
        method: The HTTP method.
        path: The path as it is sent, percent-encoded.
        headers: The headers to send and to sign, with names in lower case; `host` is required.
        body: The body.
        credentials: Whose signature it is.
        scope: The region and the service.
        query: The query as `encode_query` returns it.
        now: Seconds since 1970; the current time by default.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    payload = hashlib.sha256(body).hexdigest()
    signed = {**headers, "x-amz-content-sha256": payload, "x-amz-date": moment}
    if credentials.session_token is not None:
        signed["x-amz-security-token"] = credentials.session_token
    names = sorted(signed)
    # S3 signs the path as it is sent. The other services encode it once more.
    canonical = path if scope.service == "s3" else quote(path, safe=f"/{_UNRESERVED}")
    request = "\n".join(
        [
            method,
            canonical,
            query,
            *(f"{name}:{' '.join(signed[name].split())}" for name in names),
            "",
            ";".join(names),
            payload,
        ]
    )
    within = f"{moment[:8]}/{scope.region}/{scope.service}/aws4_request"
    text = f"{_ALGORITHM}\n{moment}\n{within}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in within.split("/"):
        key = _hmac(key, part)
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{within}, "
        f"SignedHeaders={';'.join(names)}, Signature={_hmac(key, text).hex()}"
    )
    return signed


def encode_query(parameters: Mapping[str, str]) -> str:
    """Return a query in the form that is signed, which is also a valid one to send."""
    pairs = (
        (quote(name, safe=_UNRESERVED), quote(value, safe=_UNRESERVED))
        for name, value in parameters.items()
    )
    # Sorted as they are sent: the order of encoded characters is another.
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
