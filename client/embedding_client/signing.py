"""AWS Signature Version 4 as an `httpx.Auth`, for Function URLs with IAM auth.

It works in any client built on httpx or httpx2, sync and async:

    httpx.Client(auth=SigV4Auth())
    OpenAI(base_url=url + "/v1", api_key="-", http_client=httpx.Client(auth=SigV4Auth()))

Credentials come from botocore's own chain (environment, profiles, SSO, roles, instance metadata)
and are refreshed by it; the region is read from the URL.
"""

import hashlib
import os
import re
import threading
from collections.abc import AsyncGenerator, Collection, Generator
from typing import Any, Protocol
from urllib.parse import quote, unquote

import anyio.to_thread
import botocore.session
import httpx
from botocore.auth import SigV4Auth as _BotocoreSigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import BotoCoreError

from embedding_client.errors import ConfigurationError, CredentialsError

try:  # The same Auth under another name: what openai, huggingface_hub and others build upon.
    from httpx2 import Auth as _Httpx2Auth
except ImportError:
    _Httpx2Auth = httpx.Auth  # type: ignore[assignment,misc]

__all__ = ["SigV4Auth", "region_of"]

_FUNCTION_URL = re.compile(r"\.lambda-url\.([a-z0-9-]+)\.on\.aws(\.cn)?$")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
# What a local Function URL accepts where no key pair is set, and the region it then is in.
_LOCAL_CREDENTIALS = Credentials("local", "local")
_LOCAL_REGION = "us-east-1"


class _Request(Protocol):
    """What httpx.Request and httpx2.Request have in common."""

    method: str
    headers: Any
    url: Any
    content: bytes

    def read(self) -> bytes: ...
    async def aread(self) -> bytes: ...


class _Bases(*dict.fromkeys((httpx.Auth, _Httpx2Auth))):  # type: ignore[misc]
    """Both httpx's Auth and httpx2's, once where they are the same."""


class SigV4Auth(_Bases):
    """Signs the requests to Function URLs.

    Requests to Function URLs (`<id>.lambda-url.<region>.on.aws`), to this machine and to `hosts`
    are signed. Others go out as they are: an SDK may ask its maker's server something through the
    same client, and a redirect may lead anywhere; neither should get a session token.

    An `Authorization` header that is there already (an SDK's API key, say) gives way to the
    signature. Signed are the method, the path, the query, the host, the content type, all `x-amz-`
    headers and the body; headers that a proxy may change are not.

    Args:
        profile: the name of a profile of the AWS configuration files.
        session: a botocore session to take credentials from, instead of a profile.
        credentials: credentials to use as they are, instead of a session's.
        hosts: more hosts to sign for: your own domains in front of a Function URL.
        region: the region to sign for, where the host does not say it.
        service: the service to sign for.
    """

    def __init__(
        self,
        *,
        profile: str | None = None,
        session: botocore.session.Session | None = None,
        credentials: Credentials | None = None,
        hosts: Collection[str] = (),
        region: str | None = None,
        service: str = "lambda",
    ) -> None:
        if sum(given is not None for given in (profile, session, credentials)) > 1:
            raise ConfigurationError("Give one of profile, session and credentials, not several.")
        self._profile = profile
        self._session = session
        self._credentials = credentials
        self._hosts = frozenset(hosts)
        self._region = region
        self._service = service
        self._resolved: Credentials | None = None
        self._lock = threading.Lock()

    def sync_auth_flow(self, request: Any) -> Generator[Any, Any, None]:
        """Signs a request of a sync client."""
        if self._covers(request.url.host):
            request.read()
            self.sign(request)
        yield request

    async def async_auth_flow(self, request: Any) -> AsyncGenerator[Any, Any]:
        """Signs a request of an async client; credentials are read and refreshed in a thread."""
        if self._covers(request.url.host):
            await request.aread()
            credentials = await anyio.to_thread.run_sync(self._frozen, request.url.host)
            self._sign(request, credentials)
        yield request

    def sign(self, request: _Request) -> None:
        """Puts the signature into the request's headers.

        Raises:
            CredentialsError: no credentials were found, or they could not be refreshed.
            ConfigurationError: no region is known.
        """
        self._sign(request, self._frozen(request.url.host))

    def _covers(self, host: str) -> bool:
        return host in _LOOPBACK or host in self._hosts or bool(_FUNCTION_URL.search(host))

    def _sign(self, request: _Request, credentials: ReadOnlyCredentials) -> None:
        headers = request.headers
        for name in ("authorization", "x-amz-date", "x-amz-security-token"):
            if name in headers:
                del headers[name]
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
        region = self._region or region_of(request.url.host, session=self._session)
        _BotocoreSigV4Auth(credentials, self._service, region).add_auth(covered)
        for name in ("Authorization", "X-Amz-Date", "X-Amz-Security-Token"):
            if name in covered.headers:
                headers[name] = covered.headers[name]

    def _frozen(self, host: str) -> ReadOnlyCredentials:
        try:
            # Each time: what has expired is refreshed here.
            return self._found(host).get_frozen_credentials()
        except BotoCoreError as error:
            raise CredentialsError(f"The AWS credentials cannot be used: {error}") from error

    def _found(self, host: str) -> Credentials:
        if self._credentials is not None:
            return self._credentials
        if host in _LOOPBACK and self._profile is None and self._session is None:
            return _local_credentials()
        with self._lock:
            if self._resolved is None:
                session = self._session or botocore.session.Session(profile=self._profile)
                self._resolved = session.get_credentials()
        if self._resolved is None:
            raise CredentialsError(
                "No AWS credentials were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
                "choose a profile with AWS_PROFILE, or log in (`aws sso login`)."
            )
        return self._resolved


def region_of(host: str, *, session: botocore.session.Session | None = None) -> str:
    """Returns the region to sign for: the one in a Function URL's host, else the configured one.

    Raises:
        ConfigurationError: neither is there.
    """
    in_url = _FUNCTION_URL.search(host)
    if in_url:
        return in_url.group(1)
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if named is None and host not in _LOOPBACK:
        named = (session or botocore.session.Session()).get_config_variable("region")
    if named:
        return str(named)
    if host in _LOOPBACK:
        return _LOCAL_REGION
    raise ConfigurationError(
        f"No AWS region is known for {host!r}: it is not <id>.lambda-url.<region>.on.aws. "
        "Give region=, or set AWS_REGION."
    )


def _local_credentials() -> Credentials:
    """The pair that a Function URL on this machine accepts; never a profile's."""
    environment = os.environ
    if "AWS_ACCESS_KEY_ID" in environment and "AWS_SECRET_ACCESS_KEY" in environment:
        return Credentials(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            environment.get("AWS_SESSION_TOKEN"),
        )
    return _LOCAL_CREDENTIALS


def _canonical_url(request: _Request) -> str:
    """The URL as it goes out, its query encoded as AWS will encode it again to check."""
    path, _, query = request.url.raw_path.decode("ascii").partition("?")
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    encoded = "&".join(f"{_encode(name)}={_encode(value)}" for name, _, value in pairs)
    return f"{request.url.scheme}://{request.headers['host']}{path}" + (encoded and f"?{encoded}")


def _encode(text: str) -> str:
    return quote(unquote(text), safe="-_.~")
