"""The actions, resources and conditions by which AWS authorizes requests."""

import json
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ministack import app
from ministack.core import iam_actions, iam_evaluator
from ministack.services import iam
from ministack_patches import replaces

_BY_URL = "lambda:InvokeFunctionUrl"
#: The condition keys of a simulation, in lower case; each request has its own.
_simulated: ContextVar[dict[str, str]] = ContextVar("simulated", default={})  # noqa: B039 - not changed
_OF_ONE_ALIAS = {"GET": "GetAlias", "PUT": "UpdateAlias", "DELETE": "DeleteAlias"}


# Bootstrap's bucket refuses requests without TLS: here the loopback interface counts as TLS.
@replaces(iam_evaluator, "_resolve_condition_key")
def _condition_key(original: Callable[..., Any], key: str, context: Any) -> Any:
    if key.lower() == "aws:securetransport":
        return "true"
    return _simulated.get().get(key.lower()) or original(key, context)


# SimulatePrincipalPolicy uses the conditions of its request, which MiniStack ignores:
# https://docs.aws.amazon.com/IAM/latest/APIReference/API_SimulatePrincipalPolicy.html
@replaces(iam, "_extract_simulate_params")
def _extract(original: Callable[..., Any], request: dict[str, Any]) -> Any:
    keys, number = {}, 1
    while name := iam._p(request, f"ContextEntries.member.{number}.ContextKeyName"):
        value = iam._p(request, f"ContextEntries.member.{number}.ContextKeyValues.member.1")
        keys[name.lower()] = value
        number += 1
    _simulated.set(keys)
    return original(request)


# A request to a Function URL needs `InvokeFunction` besides `InvokeFunctionUrl`:
# https://docs.aws.amazon.com/lambda/latest/dg/urls-auth.html
@replaces(app, "_enforce_data_plane")
def _enforce(
    original: Callable[..., Any],
    service: str,
    wanted: str,
    headers: dict[str, str],
    *request: Any,
    **given: Any,
) -> Any:
    refused = original(service, wanted, headers, *request, **given)
    # An unsigned request has no caller; the URL itself refuses it.
    if refused or wanted != _BY_URL or "authorization" not in headers:
        return refused
    by_url = given | {"service_context": {"lambda:InvokedViaFunctionUrl": "true"}}
    return original(service, "lambda:InvokeFunction", headers, *request, **by_url)


# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awslambda.html:
# an alias is not read by `ListAliases`, nor the reserved concurrency by an action that sets it.
@replaces(iam_actions, "_lambda_action")
def _action(original: Callable[..., Any], method: str, path: str) -> Any:
    parts = path.strip("/").split("/")
    if "aliases" in parts[3:-1] and method in _OF_ONE_ALIAS:
        return _OF_ONE_ALIAS[method]
    if method == "GET" and parts[-1] == "concurrency":
        return "GetFunctionConcurrency"
    return original(method, path)


# A repository, a map run, the principal of a simulation, and a version or alias are resources:
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonelasticcontainerregistry.html
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsstepfunctions.html
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awsidentityandaccessmanagementiam.html
@replaces(iam_actions, "extract_resource_arn")
def _resource(original: Callable[..., Any], service: str, *request: Any) -> Any:
    _, _, _, body, query, region, account = request
    if service == "ecr":
        names = json.loads(body or b"{}").get("repositoryNames", [])
        if len(names) == 1:
            return f"arn:aws:ecr:{region}:{account}:repository/{names[0]}"
    if service == "states" and (run := json.loads(body or b"{}").get("mapRunArn")):
        return run
    if service == "iam" and (principal := _first(query.get("PolicySourceArn"))):
        return principal
    arn = original(service, *request)
    qualifier = _first(query.get("Qualifier")) if service == "lambda" else None
    if qualifier and arn.startswith("arn:aws:lambda:") and arn.count(":") == 6:
        return f"{arn}:{qualifier}"
    return arn


def _first(value: Any) -> Any:
    return value[0] if isinstance(value, list) else value
