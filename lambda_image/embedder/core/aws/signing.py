"""AWS Signature Version 4, and the credentials that it is made with.

Lambda puts the credentials of the function's role into environment variables. A function with
SnapStart, a task of ECS and a pod of EKS ask an HTTP endpoint of their host instead: its URL and
token are in the environment.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
https://docs.aws.amazon.com/lambda/latest/dg/snapstart-activate.html#snapstart-credentials

A search waits for this import: `http.client` and `ssl` take 50 ms of processor time, `urllib3` 85
more, and botocore's signer and credentials 260 more.
"""

import hashlib
import hmac
import http.client
import os
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import quote, urlsplit

import orjson

from embedder.core.aws.connection import ConnectionPool

_ALGORITHM = "AWS4-HMAC-SHA256"
#: Temporary credentials are replaced this long before they expire.
_EARLY_SECONDS = 300.0
_TIMEOUT_SECONDS = 2.0
#: The host of the endpoint of ECS for AWS_CONTAINER_CREDENTIALS_RELATIVE_URI.
_ECS = "http://169.254.170.2"
#: The hosts that may be asked without TLS: this machine's, and those of ECS and EKS.
_HOSTS = frozenset(
    {"localhost", "127.0.0.1", "::1", "169.254.170.2", "169.254.170.23", "fd00:ec2::23"}
)


class Credentials(NamedTuple):
    """A key pair, and the session's token if it is a temporary one."""

    access_key: str
    secret_key: str
    session_token: str | None = None

    def __repr__(self) -> str:
        # The class has secrets, and a trace may show it.
        return f"Credentials({self.access_key[:4]}…)"


def sign(
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    credentials: Credentials,
    region: str,
    service: str,
    now: float | None = None,
) -> dict[str, str]:
    """Return the headers of a request with its signature, for a region and a service.

    The path is percent-encoded, as it is sent. The headers, with names in lower case, include
    `host`. The service has its signing name, such as `s3vectors`. `now` is in seconds since 1970,
    by default the current time.
    """
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    payload = hashlib.sha256(body).hexdigest()
    signed = {**headers, "x-amz-content-sha256": payload, "x-amz-date": moment}
    if credentials.session_token is not None:
        signed["x-amz-security-token"] = credentials.session_token
    names = sorted(signed)
    request = "\n".join(
        [
            method,
            # All services but S3 sign the encoded path encoded once more.
            quote(path, safe="/-_.~"),
            "",
            *(f"{name}:{' '.join(signed[name].split())}" for name in names),
            "",
            ";".join(names),
            payload,
        ]
    )
    within = f"{moment[:8]}/{region}/{service}/aws4_request"
    text = f"{_ALGORITHM}\n{moment}\n{within}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{credentials.secret_key}".encode()
    for part in within.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{within}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return signed


class NoCredentialsError(Exception):
    """There are no credentials, or the endpoint did not give them."""


class _Temporary(NamedTuple):
    credentials: Credentials
    #: Seconds since 1970.
    expires: float


class CredentialsProvider:
    """Finds the credentials and replaces them before they expire.

    `environ` is read for each request: it has secrets, which no settings should carry, and a
    restored snapshot may have others.
    """

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        self._environ = environ
        self._temporary: _Temporary | None = None
        #: Held by the thread that asks the endpoint, which limits how often it may be asked.
        self._asking = threading.Lock()

    def get(self) -> Credentials:
        """Return the credentials to sign with, or raise `NoCredentialsError`."""
        environ = self._environ
        access_key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
        if access_key and secret:
            return Credentials(access_key, secret, environ.get("AWS_SESSION_TOKEN") or None)
        kept = self._temporary
        if kept is None or time.time() > kept.expires - _EARLY_SECONDS:
            kept = self._replaced(kept)
        return kept.credentials

    def forget(self) -> None:
        """Drop temporary credentials, which a snapshot must not carry."""
        self._temporary = None

    def _replaced(self, old: _Temporary | None) -> _Temporary:
        valid = old is not None and time.time() < old.expires
        # One thread asks. The others go on with what they have, and wait only without.
        if not self._asking.acquire(blocking=not valid) and old is not None:
            return old
        try:
            kept = self._temporary
            if kept is None or kept is old:
                kept = self._temporary = self._asked()
        except NoCredentialsError:
            # The endpoint may fail for a moment, and these are still valid.
            if old is None or not valid:
                raise
            return old
        finally:
            self._asking.release()
        return kept

    def _asked(self) -> _Temporary:
        environ = self._environ
        relative = environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = _ECS + relative if relative else environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if not url:
            raise NoCredentialsError(
                "There are no AWS credentials in the environment: neither AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, nor a container endpoint."
            )
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _HOSTS:
            raise NoCredentialsError(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https://, or a host of this machine."
            )
        headers = {"host": parts.netloc, "accept": "application/json"}
        token = self._token()
        if token:
            headers["authorization"] = token
        pool = ConnectionPool(f"{parts.scheme}://{parts.netloc}")
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        try:
            answer = pool.request("GET", target, headers=headers, timeout=_TIMEOUT_SECONDS)
        except (OSError, http.client.HTTPException) as error:
            raise NoCredentialsError("The container endpoint did not respond.") from error
        finally:
            pool.close()
        if answer.status != 200:
            raise NoCredentialsError(f"The container endpoint responded with {answer.status}.")
        return _parsed(answer.body)

    def _token(self) -> str | None:
        path = self._environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        if not path:
            return self._environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise NoCredentialsError(
                "The file of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read."
            ) from error


def _parsed(body: bytes) -> _Temporary:
    try:
        value = orjson.loads(body)
        moment = datetime.fromisoformat(value["Expiration"])
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return _Temporary(
            Credentials(value["AccessKeyId"], value["SecretAccessKey"], value.get("Token")),
            moment.timestamp(),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        # Without the cause's text, which may quote a secret.
        raise NoCredentialsError("The container endpoint's response has no credentials.") from error
