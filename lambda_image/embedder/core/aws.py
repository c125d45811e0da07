"""Calls to AWS from the endpoint: connections that stay open, credentials, Signature Version 4.

Lambda puts the credentials of the function's role into environment variables. A function with
SnapStart, a task of ECS and a pod of EKS ask an HTTP endpoint of their host instead: its URL and
token are in the environment.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
https://docs.aws.amazon.com/lambda/latest/dg/snapstart-activate.html#snapstart-credentials

Imported on demand. A search waits for it: `http.client` and `ssl` take 50 ms of processor time,
`urllib3` 85 more, and botocore's signer and credentials 260 more.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import os
import select
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import orjson

#: A connection that was idle for longer is not used again. A function's environment may be frozen
#: for minutes, and then a network device may have dropped the connection without a word.
_IDLE_SECONDS = 20.0
#: Idle connections that are kept. A server has as many concurrent requests as callers.
_MOST_IDLE = 64
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


class AwsResponse(NamedTuple):
    """A response; names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ConnectionPool:
    """Sends requests to one host, of an http or https `url`.

    Threads may share it, as each request has a separate connection.
    """

    def __init__(self, url: str) -> None:
        address = urlsplit(url)
        if address.scheme not in {"http", "https"} or not address.hostname:
            raise ValueError(f"The URL must be http:// or https:// with a host; found {url!r}.")
        #: The value of the header `host`, which a signature covers.
        self.host = address.netloc.rpartition("@")[2]
        self._prefix = address.path.rstrip("/")
        self._new = partial(http.client.HTTPConnection, address.hostname, address.port)
        if address.scheme == "https":
            # Imported here: a server on this machine needs no TLS.
            import ssl  # noqa: PLC0415

            context = ssl.create_default_context()
            self._new = partial(
                http.client.HTTPSConnection, address.hostname, address.port, context=context
            )
        #: Each with the time since when it is idle, the last one at the end. Threads share the
        #: list: to append and to pop are each atomic.
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []

    def request(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        timeout: float,
    ) -> AwsResponse:
        """Send a request and read its response; `timeout` is for each wait, in seconds.

        A connection that the server closed while it was idle is replaced by a new one. The request
        may then be sent twice, so it must be one that is safe to repeat.

        Raises:
            OSError: if there is no response; `TimeoutError` if it took too long.
            http.client.HTTPException: if it is not HTTP.
        """
        request = (method, self._prefix + target, body or None, dict(headers or {}))
        connection = self._reusable()
        if connection is not None:
            try:
                return self._exchange(connection, timeout, *request)
            except (ConnectionError, http.client.HTTPException):
                # Closed by the server in this moment: RemoteDisconnected, or a broken pipe.
                pass
        return self._exchange(self._new(), timeout, *request)

    def close(self) -> None:
        """Close the idle connections; later requests open new ones."""
        while (idle := self._last_idle()) is not None:
            idle[0].close()

    def _exchange(
        self, connection: http.client.HTTPConnection, timeout: float, *request: Any
    ) -> AwsResponse:
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        try:
            connection.request(*request)
            response = connection.getresponse()
            content = response.read()
        except BaseException:
            # Also when the request is interrupted: its response must not be the next one's.
            connection.close()
            raise
        if len(self._idle) >= _MOST_IDLE:
            connection.close()
        elif connection.sock is not None:
            self._idle.append((connection, time.time()))
        fields = {name.lower(): value for name, value in response.getheaders()}
        return AwsResponse(response.status, fields, content)

    def _reusable(self) -> http.client.HTTPConnection | None:
        while (idle := self._last_idle()) is not None:
            connection, since = idle
            if 0 <= time.time() - since < _IDLE_SECONDS and not _readable(connection):
                return connection
            connection.close()
        return None

    def _last_idle(self) -> tuple[http.client.HTTPConnection, float] | None:
        try:
            return self._idle.pop()
        except IndexError:  # Another thread has taken the last one.
            return None


def _readable(connection: http.client.HTTPConnection) -> bool:
    """Return whether an idle connection has something to read: the server has closed it."""
    # Not `select`, which takes no descriptor above 1,023, and a server has many.
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))


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
    for component in within.split("/"):
        key = hmac.digest(key, component.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credentials.access_key}/{within}, "
        f"SignedHeaders={';'.join(names)}, Signature={signature}"
    )
    return signed


class RoleCredentialsError(Exception):
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
        """Return the credentials to sign with, or raise `RoleCredentialsError`."""
        environ = self._environ
        access_key, secret = environ.get("AWS_ACCESS_KEY_ID"), environ.get("AWS_SECRET_ACCESS_KEY")
        if access_key and secret:
            return Credentials(access_key, secret, environ.get("AWS_SESSION_TOKEN") or None)
        temporary = self._temporary
        if temporary is None or time.time() > temporary.expires - _EARLY_SECONDS:
            temporary = self._replaced(temporary)
        return temporary.credentials

    def forget(self) -> None:
        """Drop temporary credentials, which a snapshot must not carry."""
        self._temporary = None

    def _replaced(self, old: _Temporary | None) -> _Temporary:
        valid = old is not None and time.time() < old.expires
        # One thread asks. The others use the old ones, and wait only if they have none.
        if not self._asking.acquire(blocking=not valid) and old is not None:
            return old
        try:
            temporary = self._temporary
            if temporary is None or temporary is old:
                temporary = self._temporary = self._asked()
        except RoleCredentialsError:
            # The endpoint may fail for a moment, and these are still valid.
            if old is None or not valid:
                raise
            return old
        finally:
            self._asking.release()
        return temporary

    def _asked(self) -> _Temporary:
        environ = self._environ
        relative = environ.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
        url = _ECS + relative if relative else environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if not url:
            raise RoleCredentialsError(
                "There are no AWS credentials in the environment: neither AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, nor a container endpoint."
            )
        address = urlsplit(url)
        if address.scheme != "https" and address.hostname not in _HOSTS:
            raise RoleCredentialsError(
                "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https://, or a host of this machine."
            )
        headers = {"host": address.netloc, "accept": "application/json"}
        token = self._token()
        if token:
            headers["authorization"] = token
        pool = ConnectionPool(f"{address.scheme}://{address.netloc}")
        target = address.path + (f"?{address.query}" if address.query else "")
        try:
            answer = pool.request("GET", target, headers=headers, timeout=_TIMEOUT_SECONDS)
        except (OSError, http.client.HTTPException) as error:
            raise RoleCredentialsError("The container endpoint did not respond.") from error
        finally:
            pool.close()
        if answer.status != 200:
            raise RoleCredentialsError(f"The container endpoint responded with {answer.status}.")
        return _parsed(answer.body)

    def _token(self) -> str | None:
        path = self._environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
        if not path:
            return self._environ.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        try:
            with open(path, encoding="ascii") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise RoleCredentialsError(
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
        raise RoleCredentialsError(
            "The container endpoint's response has no credentials."
        ) from error
