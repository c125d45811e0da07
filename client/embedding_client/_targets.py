"""Where a client sends its requests, and what authenticates them: a URL, or Lambda's Invoke.

A target turns a call of the endpoint's API into the HTTP request to send, and the HTTP response
into that of the endpoint. It does no I/O.

Invoke is for callers in a private network: a Function URL has no private address; Lambda's own API
has one, by an interface endpoint of a VPC. The event is that of a Function URL, payload format 2.0,
and so is the function's result:
https://docs.aws.amazon.com/lambda/latest/dg/urls-invocation.html#urls-payloads
https://docs.aws.amazon.com/lambda/latest/api/API_Invoke.html
"""

import base64
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

import botocore
import botocore.exceptions
import botocore.session
import httpx2
from botocore.config import Config

from embedding_client._auth import (
    ApiKeyAuth,
    SigV4Auth,
    SigV4AuthIfRefused,
    check_encrypted,
    signing_region,
)
from embedding_client._responses import read_json
from embedding_client.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True)
class EndpointRequest:
    """A request to send after `delay` seconds."""

    method: str
    url: str
    content: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True)
class UrlTarget:
    """A Function URL, an API in front of it, or a server; its host names the region."""

    name: str
    region: None = None

    def request(
        self, method: str, path: str, body: bytes | None, *, delay: float
    ) -> EndpointRequest:
        """Return the request for a call of the endpoint's API, with a JSON body or none."""
        headers = {"content-type": "application/json"} if body is not None else {}
        return EndpointRequest(
            method=method, url=self.name + path, content=body, headers=headers, delay=delay
        )

    def response(self, response: httpx2.Response) -> httpx2.Response:
        """Return the response, which is the endpoint's own."""
        return response


def check_url(url: str, *, allow_plain_http: bool = False) -> str:
    """Return the endpoint's URL without a trailing slash, or raise `ConfigurationError`."""
    address = urlsplit(url)
    if (
        address.scheme not in {"http", "https"}
        or not address.hostname
        or address.query
        or address.fragment
    ):
        raise ConfigurationError(
            "The URL must look like https://<id>.lambda-url.<region>.on.aws/ or "
            f"http://127.0.0.1:9000; found {url!r}."
        )
    if not allow_plain_http:
        check_encrypted(address.scheme, address.hostname)
    return url.rstrip("/")


_NAME = re.compile(
    r"(?:(?:arn:aws[a-z0-9-]*:lambda:(?P<region>[a-z0-9-]+):)?\d{12}:function:)?"
    r"[A-Za-z0-9_-]{1,140}:[A-Za-z0-9_-]{1,128}"
)
#: Lambda's error for a result over its 6 MB. Fewer texts have a smaller one.
_RESULT_TOO_LARGE = "Function.ResponseSizeTooLarge"
#: The longest part of a function's error that a message shows.
_SHOWN = 500


@dataclass(frozen=True, kw_only=True)
class FunctionTarget:
    """An alias of a function by its name or ARN, and the URL of Lambda's API."""

    name: str
    api: str
    region: str

    def request(
        self, method: str, path: str, body: bytes | None, *, delay: float
    ) -> EndpointRequest:
        """Return the request that invokes the function with the event of this call."""
        function, _, alias = self.name.rpartition(":")
        return EndpointRequest(
            method="POST",
            url=f"{self.api}/2015-03-31/functions/{quote(function, safe='')}/invocations"
            f"?Qualifier={alias}",
            content=invocation_event(method, path, body),
            headers={
                "content-type": "application/json",
                "x-amz-invocation-type": "RequestResponse",
            },
            delay=delay,
        )

    def response(self, response: httpx2.Response) -> httpx2.Response:
        """Return the response in the function's result, or an error of Lambda as it is.

        A failure of the function is a 502, as at a Function URL. A result over Lambda's limit is a
        413, so that the client sends fewer texts.
        """
        if response.status_code != 200:
            return response
        result = read_json(response.content)
        headers = {"x-amzn-requestid": response.headers.get("x-amzn-requestid", "")}
        if "x-amz-function-error" in response.headers:
            return _failure(result, headers)
        if not isinstance(result, dict) or "statusCode" not in result:
            return httpx2.Response(200, headers=headers, content=response.content)
        try:
            return _http_response(result, headers)
        except (AttributeError, TypeError, ValueError):
            return httpx2.Response(502, headers=headers, content=b"Internal Server Error")


#: Where requests go.
Target = UrlTarget | FunctionTarget


def function_target(
    function: str,
    *,
    endpoint_url: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    allow_plain_http: bool = False,
) -> FunctionTarget:
    """Return the target of a function: in its ARN's, the API's or the configured region."""
    match = _NAME.fullmatch(function)
    if match is None:
        raise ConfigurationError(
            "The function must be named with its alias, such as embedder:live, "
            "123456789012:function:embedder:live or "
            "arn:aws:lambda:eu-central-1:123456789012:function:embedder:live; "
            f"found {function!r}."
        )
    in_arn = match["region"]
    if in_arn and region not in {None, in_arn}:
        raise ConfigurationError(f"The function is in {in_arn}, but region={region!r} is given.")
    api = (
        None if endpoint_url is None else check_url(endpoint_url, allow_plain_http=allow_plain_http)
    )
    try:
        session = botocore.session.Session(profile=profile)
        region = region or in_arn or _region(function, api, session)
        if api is None:  # AWS's, or that of AWS_ENDPOINT_URL_LAMBDA or a profile.
            config = Config(signature_version=botocore.UNSIGNED)
            client = session.create_client("lambda", region_name=region, config=config)
            api = str(client.meta.endpoint_url).rstrip("/")
    except (botocore.exceptions.BotoCoreError, ValueError) as error:
        raise ConfigurationError(f"{function}: {str(error).rstrip('.')}.") from error
    return FunctionTarget(name=function, api=api, region=region)


def _region(function: str, api: str | None, session: botocore.session.Session) -> str:
    try:
        return signing_region(urlsplit(api or "").hostname or "", session=session)
    except ConfigurationError:
        raise ConfigurationError(
            f"The AWS region of {function!r} is unknown. Give region= or the ARN of the alias, or "
            "set AWS_REGION."
        ) from None


def invocation_event(method: str, path: str, body: bytes | None = None) -> bytes:
    """Return the event by which Lambda's Invoke sends a request to the function."""
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": "",
        "headers": {} if body is None else {"content-type": "application/json"},
        "requestContext": {"http": {"method": method, "path": path}},
        "isBase64Encoded": False,
    }
    if body is not None:
        event["body"] = body.decode()
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def _http_response(result: dict[str, Any], headers: dict[str, str]) -> httpx2.Response:
    body = result.get("body") or ""
    content = base64.b64decode(body, validate=True) if result.get("isBase64Encoded") else body
    own = {str(name): str(value) for name, value in (result.get("headers") or {}).items()}
    return httpx2.Response(
        int(result["statusCode"]),
        headers={**headers, **own},
        content=content if isinstance(content, bytes) else content.encode(),
    )


def _failure(result: object, headers: dict[str, str]) -> httpx2.Response:
    """Return the response for a function that raised an error, timed out or exited."""
    error = result if isinstance(result, dict) else {}
    error_type = error.get("errorType")
    reason = str(error.get("errorMessage") or "Lambda gave no reason")[:_SHOWN]
    message = f"The function failed: {reason} ({error_type or 'without a type'})"
    if error_type == _RESULT_TOO_LARGE:
        return httpx2.Response(413, headers=headers, json={"error": message})
    return httpx2.Response(502, headers=headers, json={"error": message, "code": error_type})


def choose_auth(
    target: Target,
    *,
    allow_plain_http: bool,
    auth: httpx2.Auth | None = None,
    api_key: str | None = None,
    profile: str | None = None,
    region: str | None = None,
) -> httpx2.Auth:
    """Return what authenticates requests: by default a signer, also for the target's own host.

    Without a profile and a region, a host that is not AWS's gets a signature only if it refuses
    requests that have none.
    """
    if api_key is None:
        if auth is not None:
            return auth
        host = urlsplit(target.api if isinstance(target, FunctionTarget) else target.name).hostname
        region = region or target.region
        signer = SigV4Auth if profile or region else SigV4AuthIfRefused
        return signer(
            profile=profile, hosts=[host or ""], region=region, allow_plain_http=allow_plain_http
        )
    if auth is not None:
        raise ConfigurationError("Give only one of auth and api_key.")
    if isinstance(target, FunctionTarget):
        raise ConfigurationError("Lambda's Invoke takes no API key: give url, or no api_key.")
    return ApiKeyAuth(api_key, allow_plain_http=allow_plain_http)
