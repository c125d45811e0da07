"""Lambda functions: who answers them, their provisioned concurrency, versions and aliases."""

import json
import os
import random
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

from ministack.core import lambda_runtime, responses
from ministack.services import cloudformation, lambda_svc
from ministack.services.cloudformation import engine, stacks
from ministack_codedeploy import Deployment, deploy
from ministack_patches import HANDLERS, arn, replaces

#: Fields that an update or a publication changes, and so not part of the content.
_VOLATILE = frozenset(
    {
        "FunctionArn", "LastModified", "LastUpdateStatus", "LastUpdateStatusReason",
        "LastUpdateStatusReasonCode", "RevisionId", "State", "StateReason", "StateReasonCode",
        "Version",
    }
)  # fmt: skip


# Functions are invoked at `REHEARSAL_FUNCTION_PROXY`, in MiniStack's proxy mode, with the
# credentials of the function's role.
@replaces(lambda_svc, "_proxy_url_for")
def _proxy(original: Callable[..., Any], config: dict[str, Any]) -> Any:
    proxy = os.environ.get("REHEARSAL_FUNCTION_PROXY")
    keys = lambda_runtime.execution_credentials(config)
    return f"{proxy}?{urllib.parse.urlencode(keys)}" if proxy else original(config)


# A response in the form of an error is the function's error:
# https://docs.aws.amazon.com/lambda/latest/dg/python-exceptions.html
@replaces(lambda_svc, "_execute_function_proxy")
def _execute(
    original: Callable[..., dict[str, Any]],
    function: dict[str, Any],
    event: Any,
    url: str,
    request: str,
) -> dict[str, Any]:
    began = time.perf_counter()
    result = original(function, event, url, request)
    body = result.get("body")
    if isinstance(body, dict) and set(body) == {"errorMessage", "errorType", "log"}:
        return {**result, "error": True, "log": body.pop("log")}
    return {**result, "log": _report(function, body, request, time.perf_counter() - began)}


# The log ends with the platform's report. It is text, which no metric filter of the stacks counts;
# the start's time is that of its request.
def _report(function: dict[str, Any], body: Any, request: str, seconds: float) -> str:
    size = function.get("config", function)["MemorySize"]
    fields = [
        f"REPORT RequestId: {request}",
        f"Duration: {1000 * seconds:.2f} ms",
        f"Memory Size: {size} MB",
        f"Max Memory Used: {size} MB",
    ]
    if isinstance(body, dict) and "x-cold-start" in (body.get("headers") or {}):
        fields.append(f"Init Duration: {1000 * seconds:.2f} ms")
    return "\t".join(fields) + "\n"


# Without a qualifier, the request lists all:
# https://docs.aws.amazon.com/lambda/latest/api/API_ListProvisionedConcurrencyConfigs.html
@replaces(lambda_svc, "_get_provisioned_concurrency")
def _provisioned(original: Callable[..., Any], function: str, qualifier: str | None) -> Any:
    if qualifier:
        return original(function, qualifier)
    configuration = lambda_svc._functions[function].get("provisioned_concurrency", {})
    configs = [
        {**config, "FunctionArn": arn("lambda", f"function:{function}:{name}")}
        for name, config in configuration.items()
    ]
    return responses.json_response({"ProvisionedConcurrencyConfigs": configs})


# "Lambda doesn't publish a version if the function's configuration and code haven't changed since
# the last version": https://docs.aws.amazon.com/lambda/latest/api/API_PublishVersion.html. Here it
# compares revision ids, so a function that was changed and changed back looks new. CloudFormation
# fails if it gets an existing version: https://github.com/aws/serverless-application-model/issues/1375
@replaces(lambda_svc, "_publish_version")
def _publish(original: Callable[..., Any], name: str, data: dict[str, Any]) -> Any:
    _compare(name)
    return original(name, data)


@replaces(HANDLERS["AWS::Lambda::Version"], "create")
def _create(
    original: Callable[..., Any], logical: str, properties: dict[str, Any], stack: str
) -> Any:
    _compare(str(properties.get("FunctionName", "")))
    return original(logical, properties, stack)


def _compare(function: str) -> None:
    """Give the newest version the function's revision id if their content is equal."""
    name = function.split(":")[6] if function.startswith("arn:") else function
    record = lambda_svc._functions.get(name)
    newest = max(record["versions"], key=int, default=None) if record else None
    if newest is None:
        return
    version = record["versions"][newest]
    if _content(version["config"]) == _content(record["config"]):
        version["function_revision"] = record["config"].get("RevisionId")


def _content(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in _VOLATILE}


# A version with SnapStart is active once it is published, because CloudFormation waits for that:
# https://docs.aws.amazon.com/lambda/latest/dg/snapstart-activate.html. MiniStack would start the
# code of a zip in its own process to make a snapshot.
@replaces(lambda_svc, "_snapstart_provision_version_async")
def _activate(_: Callable[..., Any], name: str, version: dict[str, Any]) -> None:
    configuration = version["config"]
    configuration.update(State="Active", LastUpdateStatus="Successful")
    configuration.update(StateReason="", StateReasonCode="")


_POLICY = "CodeDeployLambdaAliasUpdate"


# A deployment takes time and calls this server, so it must not block the server's thread.
@replaces(stacks, "_runs_on_worker_thread")
def _waits(original: Callable[..., bool], kind: str) -> bool:
    return kind == "AWS::Lambda::Alias" or original(kind)


# The resources that an update policy refers to are made before the alias:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-updatepolicy.html
@replaces(engine, "_extract_deps")
def _needs(
    original: Callable[..., set[str]], resource: dict[str, Any], names: set[str]
) -> set[str]:
    referred = engine._intrinsic_references(resource.get("UpdatePolicy", {}))
    return original(resource, names) | {name for name, _ in referred if name in names}


# With the update policy, CodeDeploy moves an alias if its version changes (the same page).
@replaces(HANDLERS["AWS::Lambda::Alias"], "update")
def _update(
    original: Callable[..., Any], physical: str, old: dict[str, Any], new: dict[str, Any], *at: str
) -> Any:
    group = _deployment_group(*at)
    was, will = old.get("FunctionVersion"), new.get("FunctionVersion")
    if group and was != will:
        function = new["FunctionName"].rpartition("function:")[2]
        alias = {"function": function, "alias": new["Name"], "old": str(was), "new": str(will)}
        deploy(Deployment(group=group, **alias))
    return original(physical, old, new, *at)


def _deployment_group(stack: str, logical: str) -> str | None:
    """Return the deployment group of an alias's update policy; None while the stack rolls back."""
    record = cloudformation._stacks[stack]
    resource = json.loads(record["_template_body"])["Resources"][logical]
    policy = resource.get("UpdatePolicy", {}).get(_POLICY)
    if policy is None or "ROLLBACK" in record["StackStatus"]:
        return None
    name = policy["DeploymentGroupName"]["Ref"]
    return str(record["_resources"][name]["PhysicalResourceId"])


# Each request to an alias with weights goes to one of its versions by chance:
# https://docs.aws.amazon.com/lambda/latest/dg/configuring-alias-routing.html. The first function
# is called by `Invoke`, the second by Function URLs, load balancers and APIs.
@replaces(lambda_svc, "_invoke")
async def _invoke(  # noqa: PLR0917 - as MiniStack calls it
    original: Callable[..., Any],
    name: str,
    event: Any,
    headers: Any,
    path_qualifier: str | None = None,
    query: Any = None,
) -> Any:
    qualifier = lambda_svc._qualifier_from_path_or_query(path_qualifier, query)
    version = _chosen(lambda_svc._functions.get(name), qualifier)
    return await original(name, event, headers, version or path_qualifier, query)


@replaces(lambda_svc, "_get_func_record_for_ref_in_scope")
def _find(original: Callable[..., Any], reference: str, **scope: Any) -> Any:
    record, config, name = original(reference, **scope)
    function = lambda_svc._functions.get_scoped(scope["account_id"], scope["region"], name)
    version = _chosen(function, reference.rpartition(":")[2])
    if version is None:
        return record, config, name
    chosen = function["versions"][version]
    return chosen, chosen["config"], name


def _chosen(function: dict[str, Any] | None, qualifier: str | None) -> str | None:
    """Return a version of an alias with weights; None if it answers by its own."""
    drawn = random.random()
    for version, weight in _weights(function, qualifier).items():
        drawn -= weight
        if drawn < 0:
            return version
    return None


def _weights(function: dict[str, Any] | None, alias: str | None) -> dict[str, float]:
    routing = (function or {}).get("aliases", {}).get(alias, {}).get("RoutingConfig") or {}
    weights: dict[str, float] = routing.get("AdditionalVersionWeights", {})
    return weights


# "Alias with weights can not be used with Provisioned Concurrency":
# https://github.com/hashicorp/terraform/issues/24957
@replaces(lambda_svc, "_put_provisioned_concurrency")
def _provision(original: Callable[..., Any], function: str, qualifier: str, data: Any) -> Any:
    if not _weights(lambda_svc._functions.get(function), qualifier):
        return original(function, qualifier, data)
    message = "Alias with weights can not be used with Provisioned Concurrency"
    return responses.error_response_json("InvalidParameterValueException", message, 400)
