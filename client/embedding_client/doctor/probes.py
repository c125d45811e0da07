"""The requests that the checks send: to AWS's APIs, and to the endpoint."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

import botocore.exceptions
import httpx2
from botocore.config import Config

from embedding_client.doctor import SkippedError

_SECONDS = 10
#: Pages of a list; more would take too long in a large account.
_MOST_PAGES = 20
#: A cold start can take longer than a connection.
TIMEOUT = httpx2.Timeout(_SECONDS, read=60)
CONFIG = Config(
    connect_timeout=5,
    read_timeout=_SECONDS,
    retries={"mode": "standard", "max_attempts": 3},
    max_pool_connections=16,
)
#: The services with another prefix of their actions in IAM.
_PREFIXES = {"stepfunctions": "states"}
_DENIED = (
    "AccessDenied",
    "AccessDeniedException",
    "AuthorizationError",
    "AuthorizationErrorException",
    "UnauthorizedOperation",
)
#: The codes of AWS's errors about credentials that other ones mend.
INVALID_CREDENTIALS = (
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
)
#: botocore's errors without credentials that can be used.
NO_CREDENTIALS = (
    botocore.exceptions.NoCredentialsError,
    botocore.exceptions.PartialCredentialsError,
    botocore.exceptions.CredentialRetrievalError,
    botocore.exceptions.SSOError,
    botocore.exceptions.TokenRetrievalError,
    botocore.exceptions.ProfileNotFound,
)


class NotPermittedError(SkippedError):
    """The caller may not look."""

    def __init__(self, action: str) -> None:
        super().__init__(f"no permission for {action}")
        self.action = action


class NoValidCredentialsError(SkippedError):
    """There are no valid credentials; `reason` is AWS's own."""

    def __init__(self, reason: str) -> None:
        super().__init__("no valid credentials, see above")
        self.reason = reason


class AwsCallError(Exception):
    """AWS refused a request for another reason, or did not answer."""

    def __init__(self, action: str, code: str, message: str) -> None:
        super().__init__(f"{action}: {message or code}")
        self.code = code


class Aws:
    """Calls of AWS's APIs, which only read."""

    def __init__(self, client: Callable[[str], Any]) -> None:
        self._make = client
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def call(self, service: str, operation: str, **arguments: Any) -> dict[str, Any]:
        """Call an operation."""
        with self._reading(service, operation) as client:
            answer: dict[str, Any] = getattr(client, operation)(**arguments)
        return answer

    def iterate(self, service: str, operation: str, **given: Any) -> Iterator[dict[str, Any]]:
        """Call an operation for each page, and yield the answers."""
        with self._reading(service, operation) as client:
            yield from client.get_paginator(operation).paginate(**given)

    def pages(self, service: str, operation: str, key: str, **given: Any) -> list[dict[str, Any]]:
        """Return the items under a key of the first pages."""
        pages = islice(self.iterate(service, operation, **given), _MOST_PAGES)
        return [item for page in pages for item in page.get(key, [])]

    @contextmanager
    def _reading(self, service: str, operation: str) -> Iterator[Any]:
        """Give the client of a service, and raise this module's errors for botocore's."""
        action = operation
        try:
            # Creating a client reads files, and botocore's sessions are not safe for threads.
            with self._lock:
                if service not in self._clients:
                    self._clients[service] = self._make(service)
                client = self._clients[service]
            name = client.meta.method_to_api_mapping[operation]
            action = f"{_PREFIXES.get(service, service)}:{name}"
            yield client
        except botocore.exceptions.ClientError as error:
            code, message = error.response["Error"]["Code"], error.response["Error"].get("Message")
            if code in _DENIED:
                raise NotPermittedError(action) from error
            if code in INVALID_CREDENTIALS:
                raise NoValidCredentialsError(f"{code}: {message}") from error
            raise AwsCallError(action, code, str(message or "")) from error
        except NO_CREDENTIALS as error:
            raise NoValidCredentialsError(str(error)) from error
        except botocore.exceptions.BotoCoreError as error:
            raise AwsCallError(action, type(error).__name__, str(error)) from error


class Reply(NamedTuple):
    """A response of the endpoint, and the milliseconds until it was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    milliseconds: float


class Web:
    """Requests over HTTP, to the endpoint one at a time: two would start a second environment."""

    def __init__(self, http: httpx2.Client, auth: httpx2.Auth) -> None:
        self._http = http
        self._auth = auth
        self._lock = threading.Lock()

    def send(
        self, method: str, url: str, body: bytes | None = None, *, signed: bool = True
    ) -> Reply:
        """Send a request to the endpoint."""
        headers = {"content-type": "application/json"} if body is not None else {}
        with self._lock:
            began = time.perf_counter()
            response = self._http.request(
                method, url, content=body, headers=headers, auth=self._auth if signed else None
            )
            seconds = time.perf_counter() - began
        return Reply(response.status_code, response.headers, response.content, 1000 * seconds)

    def get(self, url: str) -> httpx2.Response:
        """Read another address, without a signature."""
        return self._http.get(url, timeout=_SECONDS)
