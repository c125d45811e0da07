"""Corrections of the action and the resource that MiniStack's policies see.

- Bootstrap's bucket refuses requests without TLS: the loopback interface counts as TLS.
- `DescribeRepositories` is authorized against the named repository
  (https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html).
- Reading an alias is `GetAlias` and changing it is `UpdateAlias`, not `ListAliases`. Reading the
  reserved concurrency is `GetFunctionConcurrency`, not `PutFunctionConcurrency`. The resource of a
  function with a qualifier is that version or alias
  (https://docs.aws.amazon.com/service-authorization/latest/reference/list_awslambda.html).
- A request to a Function URL needs `InvokeFunction` besides `InvokeFunctionUrl`
  (https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html).
- `SimulatePrincipalPolicy` is authorized against the principal, and uses the request's conditions
  (https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html).
- `DescribeMapRun` is authorized against the map run
  (https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsstepfunctions.html).
"""

import json
from contextvars import ContextVar
from typing import Any

from ministack import app
from ministack.core import iam_actions, iam_evaluator
from ministack.services import iam

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = (
    (app, "_enforce_data_plane"),
    (iam, "_extract_simulate_params"),
    (iam, "_p"),
    (iam_actions, "_lambda_action"),
    (iam_actions, "extract_resource_arn"),
    (iam_evaluator, "_resolve_condition_key"),
)

_BY_URL = "lambda:InvokeFunctionUrl"
_CONTEXT = "ContextEntries.member"
#: The condition keys of a simulation, in lower case; each request has its own.
_simulated: ContextVar[dict[str, str]] = ContextVar("simulated", default={})  # noqa: B039 - not changed
_OF_ONE_ALIAS = {"GET": "GetAlias", "PUT": "UpdateAlias", "DELETE": "DeleteAlias"}


def install() -> None:
    """Authorize requests against the actions and resources that AWS uses."""
    condition_key = iam_evaluator._resolve_condition_key
    iam_evaluator._resolve_condition_key = lambda key, context: (
        "true"
        if key.lower() == "aws:securetransport"
        else _simulated.get().get(key.lower()) or condition_key(key, context)
    )
    parameters = iam._extract_simulate_params

    def extract(request: dict[str, Any]) -> Any:
        _simulated.set(_context(request))
        return parameters(request)

    iam._extract_simulate_params = extract
    enforced = app._enforce_data_plane

    def enforce(
        service: str, wanted: str, headers: dict[str, str], query: Any, request: str, **given: Any
    ) -> Any:
        refused = enforced(service, wanted, headers, query, request, **given)
        # An unsigned request has no caller; the URL itself refuses it.
        if refused or wanted != _BY_URL or "authorization" not in headers:
            return refused
        by_url = given | {"service_context": {"lambda:InvokedViaFunctionUrl": "true"}}
        return enforced(service, "lambda:InvokeFunction", headers, query, request, **by_url)

    app._enforce_data_plane = enforce
    action = iam_actions._lambda_action
    iam_actions._lambda_action = lambda method, path: (
        _of_one_alias(method, path) or _of_concurrency(method, path) or action(method, path)
    )
    resource = iam_actions.extract_resource_arn
    iam_actions.extract_resource_arn = lambda service, *request: (
        _named_repository(service, request)
        or _map_run(service, request)
        or _simulated_principal(service, request)
        or _qualified(service, request, resource(service, *request))
    )


def _of_one_alias(method: str, path: str) -> str | None:
    parts = path.strip("/").split("/")
    return _OF_ONE_ALIAS.get(method) if "aliases" in parts[3:-1] else None


def _of_concurrency(method: str, path: str) -> str | None:
    reads = method == "GET" and path.rstrip("/").endswith("/concurrency")
    return "GetFunctionConcurrency" if reads else None


def _context(request: dict[str, Any]) -> dict[str, str]:
    """Return the condition keys of a simulation."""
    keys, number = {}, 1
    while name := iam._p(request, f"{_CONTEXT}.{number}.ContextKeyName"):
        value = iam._p(request, f"{_CONTEXT}.{number}.ContextKeyValues.member.1")
        keys[name.lower()] = value
        number += 1
    return keys


def _named_repository(service: str, request: tuple[Any, ...]) -> str | None:
    _, _, _, body, _, region, account = request
    names = json.loads(body or b"{}").get("repositoryNames", []) if service == "ecr" else []
    return f"arn:aws:ecr:{region}:{account}:repository/{names[0]}" if len(names) == 1 else None


def _map_run(service: str, request: tuple[Any, ...]) -> str | None:
    named = json.loads(request[3] or b"{}") if service == "states" else {}
    found: str | None = named.get("mapRunArn")
    return found


def _simulated_principal(service: str, request: tuple[Any, ...]) -> str | None:
    given = request[4].get("PolicySourceArn") if service == "iam" else None
    return given[0] if isinstance(given, list) else given


def _qualified(service: str, request: tuple[Any, ...], arn: str) -> str:
    qualifier = request[4].get("Qualifier") if service == "lambda" else None
    if not qualifier or not arn.startswith("arn:aws:lambda:") or arn.count(":") != 6:
        return arn
    return f"{arn}:{qualifier[0] if isinstance(qualifier, list) else qualifier}"
