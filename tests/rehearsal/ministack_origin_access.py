"""What CloudFront in front of a function URL needs, and MiniStack creates and does not apply.

A CloudFront Function gets the keys of its key value store by the module `cloudfront`
(https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/functions-custom-methods.html).

CloudFront signs each request as itself: the signature replaces the caller's `Authorization`, and
covers the hash of the body that the caller sends. Lambda then asks the policy of the alias for
both permissions, with the distribution's ARN as the source.
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/private-content-restricting-access-to-lambda.html
"""

import fnmatch
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from ministack import app
from ministack.core import cloudfront_js
from ministack.services import cloudfront, cloudfront_keyvaluestore, lambda_svc

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = (
    (app, "_enforce_data_plane"),
    (app, "_parse_lambda_url"),
    (cloudfront, "_fetch_from_origin"),
    (cloudfront, "_function_view"),
    (cloudfront, "_functions"),
    (cloudfront, "_oacs"),
    (cloudfront, "_registered_function_url"),
    (cloudfront, "_run_function"),
    (cloudfront_keyvaluestore, "_stores"),
    (lambda_svc, "_functions"),
)
_IMPORT = b"import cf from 'cloudfront';"
_MODULE = (
    "const keys_of_store = %s; const cf = { kvs: () => ({ exists: async (key) => "
    "Object.prototype.hasOwnProperty.call(keys_of_store, key) }) };"
)

_BY_URL = "lambda:InvokeFunctionUrl"
_ACTIONS = (_BY_URL, "lambda:InvokeFunction")
_WITH_BODY = {"POST", "PUT", "PATCH", "DELETE"}
#: Whether the request is one that CloudFront has signed, and that the policy allows.
_signed: ContextVar[bool] = ContextVar("signed", default=False)


def install() -> None:
    """Sign requests to function URLs, and give functions their key value store."""
    cloudfront._run_function = _run
    fetch, enforced = cloudfront._fetch_from_origin, app._enforce_data_plane

    async def fetched(origin: dict[str, Any], method: str, *given: Any) -> Any:
        uri, query, headers, body, *rest = given
        host = cloudfront._registered_function_url(origin)
        signer = cloudfront._oacs.get(origin["oac_id"])
        if not host or not signer or signer["OriginAccessControlOriginType"] != "lambda":
            return await fetch(origin, method, *given)
        if not _hash_matches(method, headers, body) or not _allowed(host, rest[-1]):
            message = b'{"Message":"Forbidden"}'
            return 403, "Forbidden", {"content-type": "application/json"}, message
        token = _signed.set(True)
        try:
            own = {**headers, "authorization": "AWS4-HMAC-SHA256 of CloudFront"}
            return await fetch(origin, method, uri, query, own, body, *rest)
        finally:
            _signed.reset(token)

    def enforce(service: str, wanted: str, *given: Any, **named: Any) -> Any:
        if _signed.get() and wanted == _BY_URL:
            return None
        return enforced(service, wanted, *given, **named)

    cloudfront._fetch_from_origin = fetched
    app._enforce_data_plane = enforce


async def _run(arn: str, event: dict[str, Any]) -> Any:
    """Run a published function, with a stand-in of the module `cloudfront`."""
    function = cloudfront._functions[arn.rsplit("/", 1)[-1]]
    items: dict[str, str] = {}
    for store in cloudfront._function_view(function, "LIVE")["kvs_arns"]:
        items |= cloudfront_keyvaluestore._stores.get(store, {}).get("items", {})
    code = cloudfront.live_function_code(arn).replace(
        _IMPORT, (_MODULE % json.dumps(items)).encode()
    )
    return await cloudfront.run_offloop(cloudfront_js.evaluate, code, event)


def _hash_matches(method: str, headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether the signature covers the body that arrives."""
    if method not in _WITH_BODY:
        return True
    return headers.get("x-amz-content-sha256") == hashlib.sha256(body or b"").hexdigest()


def _allowed(host: str, distribution: str) -> bool:
    """Return whether the policy behind the URL lets the distribution call."""
    url_id, _ = app._parse_lambda_url(host, "/")
    *_, function, qualifier, config = lambda_svc.resolve_function_url(url_id)
    if config.get("AuthType") != "AWS_IAM":
        return True
    statements = [
        one
        for one in lambda_svc._functions[function]["policy"]["Statement"]
        if one["Resource"].endswith(f":{function}:{qualifier}")
    ]
    return all(_grants(statements, action, distribution) for action in _ACTIONS)


def _grants(statements: Sequence[Mapping[str, Any]], action: str, distribution: str) -> bool:
    return any(
        one["Effect"] == "Allow"
        and one["Action"] == action
        and one["Principal"] == {"Service": "cloudfront.amazonaws.com"}
        and _from(one.get("Condition", {}), distribution)
        for one in statements
    )


def _from(conditions: Mapping[str, Mapping[str, str]], distribution: str) -> bool:
    """Return whether the conditions name the distribution."""
    sources = [
        value
        for operator in conditions.values()
        for key, value in operator.items()
        if key.lower() == "aws:sourcearn"
    ]
    return bool(sources) and all(fnmatch.fnmatchcase(distribution, one) for one in sources)
