"""Aliases that CodeDeploy moves, and aliases with weights."""

import json
import random
from collections.abc import Callable
from typing import Any

from ministack.core import responses
from ministack.services import cloudformation, lambda_svc
from ministack.services.cloudformation import engine, stacks
from ministack_codedeploy import Deployment, deploy
from ministack_patches import HANDLERS, replaces

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
