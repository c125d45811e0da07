"""API Gateway's own answers, in the form of OpenAI's errors.

A REST API has one template for each type of response, whatever path was called. Types:
https://docs.aws.amazon.com/apigateway/latest/developerguide/supported-gateway-response-types.html
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from aws_cdk import aws_apigateway as apigateway

_CLIENT, _SERVER = "invalid_request_error", "server_error"
_TYPE = apigateway.ResponseType
#: OpenAI's clients read it, and else repeat each 429.
_NO_RETRY = {"x-should-retry": "false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _GatewayAnswer:
    """An answer that API Gateway gives without the function.

    Attributes:
        code: OpenAI's `code`, a short name for programs.
        message: The message; it shows nothing of the request.
        status: The status; None leaves API Gateway's own.
        server: Whether the fault is on the server's side.
        headers: Further headers with their values.
    """

    code: str
    message: str
    status: int | None = None
    server: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def body(self) -> str:
        """The template of the body. It has no variable, so it is JSON itself."""
        error = {
            "message": self.message,
            "type": _SERVER if self.server else _CLIENT,
            "param": None,
            "code": self.code,
        }
        return json.dumps({"error": error})


_INTERNAL = _GatewayAnswer(
    code="internal_error", message="The request could not be served.", server=True
)
#: By the id of the construct: the type and the answer.
GATEWAY_RESPONSES: dict[str, tuple[apigateway.ResponseType, _GatewayAnswer]] = {
    "InvalidApiKey": (
        _TYPE.INVALID_API_KEY,
        _GatewayAnswer(
            code="invalid_api_key",
            message="The header x-api-key is missing or has no valid API key.",
            # API Gateway's own is 403; a client of OpenAI expects 401, as our server answers.
            status=401,
        ),
    ),
    "Throttled": (
        _TYPE.THROTTLED,
        _GatewayAnswer(
            code="rate_limit_exceeded",
            message="Too many requests. Send the request again later.",
            headers={"retry-after": "1"},
        ),
    ),
    "QuotaExceeded": (
        _TYPE.QUOTA_EXCEEDED,
        _GatewayAnswer(
            code="insufficient_quota",
            message="The API key has used up its requests of this month.",
            headers=_NO_RETRY,
        ),
    ),
    "Unauthorized": (
        _TYPE.UNAUTHORIZED,
        _GatewayAnswer(code="unauthorized", message="The request has no credentials."),
    ),
    "AccessDenied": (
        _TYPE.ACCESS_DENIED,
        _GatewayAnswer(code="access_denied", message="The caller may not send this request."),
    ),
    "WafFiltered": (
        _TYPE.WAF_FILTERED,
        _GatewayAnswer(code="access_denied", message="The firewall refused the request."),
    ),
    "RequestTooLarge": (
        _TYPE.REQUEST_TOO_LARGE,
        _GatewayAnswer(
            code="body_too_large",
            message="The body is too large. Send fewer texts in one request.",
        ),
    ),
    "UnsupportedMediaType": (
        _TYPE.UNSUPPORTED_MEDIA_TYPE,
        _GatewayAnswer(
            code="malformed_body",
            message="The header content-encoding may be absent, or gzip, deflate or identity, and "
            "the body must be as it says.",
        ),
    ),
    "IntegrationTimeout": (
        _TYPE.INTEGRATION_TIMEOUT,
        _GatewayAnswer(
            code="out_of_time",
            message="The request took too long. Send fewer texts in one request.",
            server=True,
        ),
    ),
    "IntegrationFailure": (_TYPE.INTEGRATION_FAILURE, _INTERNAL),
    "Default4xx": (
        _TYPE.DEFAULT_4_XX,
        _GatewayAnswer(code="invalid_request", message="The request is not valid."),
    ),
    "Default5xx": (_TYPE.DEFAULT_5_XX, _INTERNAL),
}
