"""AWS Signature Version 4 as an `httpx2.Auth`, for Function URLs with IAM auth.

It works with every client built on httpx2 or httpx, sync and async:

    httpx2.Client(auth=SigV4Auth())
    OpenAI(base_url=url + "/v1", api_key="-", http_client=httpx2.Client(auth=SigV4Auth()))

botocore finds and refreshes the credentials (environment, profiles, SSO, roles, instance metadata).
The region comes from the URL.

API keys are for an API in front of an endpoint and for the server:

EmbeddingClient(url, api_key=key)
OpenAI(base_url=url + "/v1", api_key="-", http_client=httpx2.Client(auth=ApiKeyAuth(key)))
"""

import hashlib
import os
import re
import threading
from collections.abc import AsyncGenerator, Collection, Generator
from typing import Any
from urllib.parse import quote, unquote

import anyio.to_thread
import botocore.session
import httpx2
from botocore.auth import SigV4Auth as _BotocoreSigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import BotoCoreError

from embedding_client.errors import ConfigurationError, CredentialsError

try:  # An SDK that is built on httpx, such as Cohere's, takes an `httpx.Client` with this auth.
    from httpx import Auth as _HttpxAuth
except ImportError:

    class _HttpxAuth:  # type: ignore[no-redef]
        """A placeholder without httpx."""


#: The hosts of this machine.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_FUNCTION_URL = re.compile(r"\.lambda-url\.([a-z0-9-]+)\.on\.aws(\.cn)?$")
# Lambda's API: AWS's public names, and those of an interface endpoint of a VPC.
_LAMBDA_API = re.compile(
    r"^(?:vpce-[a-z0-9-]+\.)?lambda(?:-fips)?\.([a-z0-9-]+)\."
    r"(?:(?:vpce\.)?amazonaws\.com(?:\.cn)?|api\.aws)$"
)
# The default key pair and region of a local Function URL.
_LOCAL_CREDENTIALS = Credentials("local", "local")
_LOCAL_REGION = "us-east-1"


class SigV4Auth(httpx2.Auth, _HttpxAuth):  # type: ignore[misc]  # two types of requests
    """Signs requests to Function URLs.

    It signs requests to Function URLs (`<id>.lambda-url.<region>.on.aws`), to Lambda's API, to this
    machine and to `hosts`. It does not change requests to other hosts. An SDK may also call its
    vendor's server with the same client, and a redirect may lead anywhere. Neither should receive a
    session token.

    The signature replaces an existing `Authorization` header, such as an SDK's API key. It covers
    the method, the path, the query, the host, the content type, all `x-amz-` headers and the body.
    It does not cover headers that a proxy may change.

    Args:
        profile: The name of a profile in the AWS configuration files.
        session: A botocore session that provides the credentials, instead of a profile.
        credentials: The credentials, instead of a session.
        hosts: More hosts to sign for, such as a custom domain in front of a Function URL.
        region: The region to sign for, if the host does not contain it.
        allow_plain_http: Whether to sign for hosts without TLS. A session token and the texts then
            travel in the clear; requests to this machine are always allowed.

    Raises:
        ConfigurationError: If several sources of credentials are given. Requests raise it if the
            region is unknown or a URL has no TLS, and `CredentialsError` if there are no valid
            credentials.
    """

    def __init__(
        self,
        *,
        profile: str | None = None,
        session: botocore.session.Session | None = None,
        credentials: Credentials | None = None,
        hosts: Collection[str] = (),
        region: str | None = None,
        allow_plain_http: bool = False,
    ) -> None:
        if sum(source is not None for source in (profile, session, credentials)) > 1:
            raise ConfigurationError("Give only one of profile, session and credentials.")
        self._profile = profile
        self._session = session
        self._credentials = credentials
        self._hosts = frozenset(hosts)
        self._region = region
        self._allow_plain_http = allow_plain_http
        self._resolved: Credentials | None = None
        self._lock = threading.Lock()

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Sign a request of a sync client."""
        if self._signs_for(request.url):
            request.read()
            self._sign(request, self._frozen(request.url.host))
        yield request

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """Sign a request of an async client. A thread reads and refreshes the credentials."""
        if self._signs_for(request.url):
            await request.aread()
            credentials = await anyio.to_thread.run_sync(self._frozen, request.url.host)
            self._sign(request, credentials)
        yield request

    def _signs_for(self, url: Any) -> bool:
        if url.host not in self._hosts and not _is_signed(url.host):
            return False
        if not self._allow_plain_http:
            check_encrypted(url.scheme, url.host)
        return True

    def _sign(self, request: Any, credentials: ReadOnlyCredentials) -> None:
        headers = request.headers
        for name in ("authorization", "x-amz-date", "x-amz-security-token"):
            headers.pop(name, None)
        headers["x-amz-content-sha256"] = hashlib.sha256(request.content).hexdigest()
        covered = AWSRequest(
            method=request.method,
            url=_canonical_url(request),
            data=request.content,
            headers={
                name: headers[name]
                for name in dict.fromkeys(headers)
                if name in {"host", "content-type"} or name.startswith("x-amz-")
            },
        )
        region = self._region or signing_region(request.url.host, session=self._session)
        _BotocoreSigV4Auth(credentials, "lambda", region).add_auth(covered)
        for name in ("Authorization", "X-Amz-Date", "X-Amz-Security-Token"):
            if name in covered.headers:
                headers[name] = covered.headers[name]

    def _frozen(self, host: str) -> ReadOnlyCredentials:
        try:
            # For each request, because this call refreshes expired credentials.
            return self._credentials_for(host).get_frozen_credentials()
        except BotoCoreError as error:
            raise CredentialsError(f"The AWS credentials cannot be used: {error}") from error

    def _credentials_for(self, host: str) -> Credentials:
        if self._credentials is not None:
            return self._credentials
        if host in LOOPBACK and self._profile is None and self._session is None:
            return _local_credentials()
        with self._lock:
            if self._resolved is None:
                session = self._session or botocore.session.Session(profile=self._profile)
                self._resolved = session.get_credentials()
        if self._resolved is None:
            raise CredentialsError(
                "No AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "select a profile with AWS_PROFILE, or log in (`aws sso login`)."
            )
        return self._resolved


class SigV4AuthIfRefused(SigV4Auth):
    """Signs requests once a host has refused one without a signature, by 403.

    For hosts that are not AWS's: behind one may be a Function URL, or a server that takes no
    signature. So credentials are needed only where a host asks for them.
    """

    _is_refused = False

    def _is_tried_unsigned(self, url: Any) -> bool:
        return self._signs_for(url) and not self._is_refused and not _is_signed(url.host)

    def _frozen(self, host: str) -> ReadOnlyCredentials:
        try:
            return super()._frozen(host)
        except CredentialsError as error:
            if not self._is_refused:
                raise
            raise CredentialsError(
                f"{host} refuses requests without a signature. {error}"
            ) from error

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Sign a request of a sync client, if needed."""
        if self._is_tried_unsigned(request.url):
            response = yield request
            if response.status_code != 403:
                return
            self._is_refused = True
        yield from super().sync_auth_flow(request)

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """Sign a request of an async client, if needed."""
        if self._is_tried_unsigned(request.url):
            response = yield request
            if response.status_code != 403:
                return
            self._is_refused = True
        async for signed in super().async_auth_flow(request):
            yield signed


def check_encrypted(scheme: str, host: str) -> None:
    """Refuse to send texts, keys and signatures in the clear to another machine."""
    if scheme != "https" and host not in LOOPBACK:
        raise ConfigurationError(
            f"Texts and credentials would travel in the clear; found: {scheme}://{host}; allowed: "
            "https, this machine, and in a network that you trust plain HTTP with "
            "allow_plain_http=True (on the command line: --allow-plain-http)."
        )


def _is_signed(host: str) -> bool:
    """Return whether a host always wants signatures: a Function URL, Lambda's API, this machine."""
    return host in LOOPBACK or _in_host(host) is not None


def signing_region(host: str, *, session: botocore.session.Session | None = None) -> str:
    """Return the region in the host of a Function URL or of Lambda's API, or the configured one."""
    if in_host := _in_host(host):
        return in_host
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if named is None and host not in LOOPBACK:
        named = (session or botocore.session.Session()).get_config_variable("region")
    if named:
        return str(named)
    if host in LOOPBACK:
        return _LOCAL_REGION
    raise ConfigurationError(
        f"The AWS region of {host!r} is unknown: it is not <id>.lambda-url.<region>.on.aws. "
        "Give region=, or set AWS_REGION."
    )


def _in_host(host: str) -> str | None:
    """Return the region in the host of a Function URL or of Lambda's API, or None."""
    match = _FUNCTION_URL.search(host) or _LAMBDA_API.search(host)
    return match and match.group(1)


def _local_credentials() -> Credentials:
    """Return the key pair for a Function URL on this machine, never one of a profile."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if key is None or secret is None:
        return _LOCAL_CREDENTIALS
    return Credentials(key, secret, os.environ.get("AWS_SESSION_TOKEN"))


def _canonical_url(request: Any) -> str:
    """Return the URL as it is sent, with the query encoded as AWS encodes it for verification."""
    path, _, query = request.url.raw_path.decode("ascii").partition("?")
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    encoded = "&".join(f"{_encode(name)}={_encode(value)}" for name, _, value in pairs)
    return f"{request.url.scheme}://{request.headers['host']}{path}" + (encoded and f"?{encoded}")


def _encode(text: str) -> str:
    return quote(unquote(text), safe="-_.~")


#: The scheme of one of the challenges of a 401 (RFC 9110, 11.6.1).
_BEARER = re.compile(r"(?:^|,)\s*bearer(?:\s|,|$)", re.IGNORECASE)


class ApiKeyAuth(httpx2.Auth, _HttpxAuth):  # type: ignore[misc]  # two types of requests
    """Sends an API key with each request.

    It is sent as `x-api-key`, as API Gateway takes it, until an answer asks for a bearer token
    (`WWW-Authenticate: Bearer`), as the server's does; from then on as `Authorization: Bearer KEY`.

    Args:
        key: The secret.
        allow_plain_http: Whether to send it to hosts without TLS, where it travels in the clear;
            this machine is always allowed.

    Raises:
        CredentialsError: If the key cannot be the value of a header. Requests raise
            `ConfigurationError` if their URL is neither HTTPS nor on this machine.
    """

    #: httpx2 reads a body before the flow starts, so that it can be sent again.
    requires_request_body = True

    def __init__(self, key: str, *, allow_plain_http: bool = False) -> None:
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            # Without the key itself, which may be a real one with a line break.
            described = f"{len(key)} characters, with a space or others" if key else "none"
            raise CredentialsError(
                f"The API key must be printable ASCII characters without spaces; found {described}."
            )
        self._key = key
        self._allow_plain_http = allow_plain_http
        self._is_bearer = False

    def auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Add the key, and send the request again if it belongs into another header."""
        if not self._allow_plain_http:
            check_encrypted(request.url.scheme, request.url.host)
        if not self._is_bearer:
            request.headers["x-api-key"] = self._key
            response = yield request
            challenges = response.headers.get("www-authenticate", "")
            if response.status_code != 401 or not _BEARER.search(challenges):
                return
            self._is_bearer = True
            del request.headers["x-api-key"]
        request.headers["authorization"] = f"Bearer {self._key}"
        yield request


def read_key(variable: str) -> str:
    """Return the API key in an environment variable."""
    key = os.environ.get(variable)
    if not key:
        raise ConfigurationError(f"No API key: --api-key-env names {variable}, which is not set.")
    return key
