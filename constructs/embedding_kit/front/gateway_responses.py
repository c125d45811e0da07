"""API Gateway's own answers, in the form of OpenAI's errors.

A REST API has one template for each type of response, whatever path was called. Types:
https://docs.aws.amazon.com/apigateway/latest/developerguide/supported-gateway-response-types.html
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

from aws_cdk import aws_apigateway as apigateway

_TYPE = apigateway.ResponseType
#: The codes of faults that are not the caller's.
_SERVER_CODES = {"internal_error", "out_of_time"}


class _GatewayAnswer(NamedTuple):
    """An answer that API Gateway gives without the function.

    Attributes:
        type: Its type.
        code: OpenAI's `code`, a short name for programs.
        message: The message; it shows nothing of the request.
        status: The status; None leaves API Gateway's own.
        headers: Further headers with their values.
    """

    type: apigateway.ResponseType
    code: str
    message: str
    status: int | None = None
    headers: Mapping[str, str] = {}

    @property
    def body(self) -> str:
        """The template of the body. It has no variable, so it is JSON itself."""
        kind = "server_error" if self.code in _SERVER_CODES else "invalid_request_error"
        error = {"message": self.message, "type": kind, "param": None, "code": self.code}
        return json.dumps({"error": error})


_INTERNAL = ("internal_error", "The request could not be served.")
#: By the id of the construct.
GATEWAY_RESPONSES = {
    "InvalidApiKey": _GatewayAnswer(
        _TYPE.INVALID_API_KEY,
        "invalid_api_key",
        "The header x-api-key is missing or has no valid API key.",
        # API Gateway's own is 403; a client of OpenAI expects 401, as our server answers.
        status=401,
    ),
    "Throttled": _GatewayAnswer(
        _TYPE.THROTTLED,
        "rate_limit_exceeded",
        "Too many requests. Send the request again later.",
        headers={"retry-after": "1"},
    ),
    "QuotaExceeded": _GatewayAnswer(
        _TYPE.QUOTA_EXCEEDED,
        "insufficient_quota",
        "The API key has used up its requests of this month.",
        # OpenAI's clients read it, and else repeat each 429.
        headers={"x-should-retry": "false"},
    ),
    "Unauthorized": _GatewayAnswer(
        _TYPE.UNAUTHORIZED, "unauthorized", "The request has no credentials."
    ),
    "AccessDenied": _GatewayAnswer(
        _TYPE.ACCESS_DENIED, "access_denied", "The caller may not send this request."
    ),
    "WafFiltered": _GatewayAnswer(
        _TYPE.WAF_FILTERED, "access_denied", "The firewall refused the request."
    ),
    "RequestTooLarge": _GatewayAnswer(
        _TYPE.REQUEST_TOO_LARGE,
        "body_too_large",
        "The body is too large. Send fewer texts in one request.",
    ),
    "UnsupportedMediaType": _GatewayAnswer(
        _TYPE.UNSUPPORTED_MEDIA_TYPE,
        "malformed_body",
        "The header content-encoding may be absent, or gzip, deflate or identity, and the body "
        "must be as it says.",
    ),
    "IntegrationTimeout": _GatewayAnswer(
        _TYPE.INTEGRATION_TIMEOUT,
        "out_of_time",
        "The request took too long. Send fewer texts in one request.",
    ),
    "IntegrationFailure": _GatewayAnswer(_TYPE.INTEGRATION_FAILURE, *_INTERNAL),
    "Default4xx": _GatewayAnswer(
        _TYPE.DEFAULT_4_XX, "invalid_request", "The request is not valid."
    ),
    "Default5xx": _GatewayAnswer(_TYPE.DEFAULT_5_XX, *_INTERNAL),
}
