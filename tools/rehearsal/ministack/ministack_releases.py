"""Aliases that CloudFormation moves with CodeDeploy, and aliases with weights.

- `ministack_codedeploy` moves an alias whose update policy names a deployment group.
- Each request to an alias with weights goes to one of its versions by chance
  (https://docs.aws.amazon.com/lambda/latest/dg/configuring-alias-routing.html). MiniStack sends all
  to the alias's own version.
- While an alias has weights, its provisioned concurrency can not be changed: "Alias with weights
  can not be used with Provisioned Concurrency" (https://github.com/hashicorp/terraform/issues/24957).
"""

import json
import random
from collections.abc import Callable
from typing import Any

import ministack_alarms
import ministack_codedeploy_api
from ministack.core import responses
from ministack.services import cloudformation, lambda_svc
from ministack.services.cloudformation import engine, provisioners, stacks
from ministack_codedeploy import Alias, Deployment, Group, deploy, steps_of

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = (
    (cloudformation, "_stacks"),
    (engine, "_extract_deps"),
    (engine, "_intrinsic_references"),
    (lambda_svc, "_functions"),
    (lambda_svc, "_get_func_record_for_ref_in_scope"),
    (lambda_svc, "_invoke"),
    (lambda_svc, "_put_provisioned_concurrency"),
    (lambda_svc, "_qualifier_from_path_or_query"),
    (provisioners, "_RESOURCE_HANDLERS"),
    (stacks, "_runs_on_worker_thread"),
)

_GROUP, _CONFIG = "AWS::CodeDeploy::DeploymentGroup", "AWS::CodeDeploy::DeploymentConfig"
_POLICY = "CodeDeployLambdaAliasUpdate"
_EVERY_EVENT = (
    "DEPLOYMENT_FAILURE",
    "DEPLOYMENT_STOP_ON_ALARM",
    "DEPLOYMENT_STOP_ON_REQUEST",
)


Records = dict[str, dict[str, Any]]


def install(records: Records) -> None:
    """Move aliases with CodeDeploy.

    Args:
        records: The recorded deployment groups and configurations, by physical id.
    """
    waits = stacks._runs_on_worker_thread
    # A deployment takes time and calls this server, so it must not block the server's thread.
    stacks._runs_on_worker_thread = lambda kind: kind == "AWS::Lambda::Alias" or waits(kind)
    # The resources that an update policy refers to are deployed before the alias.
    needs = engine._extract_deps
    engine._extract_deps = lambda resource, names: (
        needs(resource, names)
        | {
            name
            for name, _ in engine._intrinsic_references(resource.get("UpdatePolicy", {}))
            if name in names
        }
    )
    handler = provisioners._RESOURCE_HANDLERS["AWS::Lambda::Alias"]
    handler["update"] = _updating(handler["update"], records)
    ministack_codedeploy_api.install()
    put = lambda_svc._put_provisioned_concurrency
    lambda_svc._put_provisioned_concurrency = lambda function, qualifier, data: (
        _refuse_weights(function, qualifier) or put(function, qualifier, data)
    )
    _route_by_weights()


def _route_by_weights() -> None:
    # The first is called by `Invoke`, the second by Function URLs, load balancers and APIs.
    invoke, find = lambda_svc._invoke, lambda_svc._get_func_record_for_ref_in_scope

    async def invoked(
        name: str, event: Any, headers: Any, path_qualifier: str | None = None, query: Any = None
    ) -> Any:
        qualifier = lambda_svc._qualifier_from_path_or_query(path_qualifier, query)
        version = _chosen(lambda_svc._functions.get(name), qualifier)
        return await invoke(name, event, headers, version or path_qualifier, query)

    def found(reference: str, **scope: Any) -> Any:
        record, config, name = find(reference, **scope)
        function = lambda_svc._functions.get_scoped(scope["account_id"], scope["region"], name)
        version = _chosen(function, reference.rpartition(":")[2])
        if version is None:
            return record, config, name
        chosen = function["versions"][version]
        return chosen, chosen["config"], name

    lambda_svc._invoke, lambda_svc._get_func_record_for_ref_in_scope = invoked, found


def _chosen(function: dict[str, Any] | None, qualifier: str | None) -> str | None:
    """Return a version of an alias with weights; None if it answers by its own."""
    alias = (function or {}).get("aliases", {}).get(qualifier, {})
    drawn = random.random()
    for version, weight in _weights(alias).items():
        drawn -= weight
        if drawn < 0:
            return str(version)
    return None


def _weights(alias: dict[str, Any]) -> dict[str, float]:
    weights: dict[str, float] = (alias.get("RoutingConfig") or {}).get(
        "AdditionalVersionWeights", {}
    )
    return weights


def _updating(update: Callable[..., Any], records: Records) -> Callable[..., Any]:
    def updated(
        physical: str, old: dict[str, Any], new: dict[str, Any], stack: str, logical: str
    ) -> Any:
        policy = _update_policy(stack, logical)
        was, will = old.get("FunctionVersion"), new.get("FunctionVersion")
        if policy and was != will:
            alias = Alias(
                function=new["FunctionName"].rpartition("function:")[2],
                name=new["Name"],
                old=str(was),
                new=str(will),
            )
            hooks = {
                when: policy[name]
                for when, name in (
                    ("before", "BeforeAllowTrafficHook"),
                    ("after", "AfterAllowTrafficHook"),
                )
                if name in policy
            }
            deployment = Deployment(
                group=_group(records, policy["DeploymentGroupName"]), alias=alias
            )
            deploy(deployment, hooks, ministack_alarms.evaluate_all)
        return update(physical, old, new, stack, logical)

    return updated


def _update_policy(stack: str, logical: str) -> dict[str, str] | None:
    """Return an alias's update policy with resolved references; None while the stack rolls back."""
    record = cloudformation._stacks[stack]
    if "ROLLBACK" in record["StackStatus"]:
        return None
    resource = json.loads(record["_template_body"])["Resources"][logical]
    policy = resource.get("UpdatePolicy", {}).get(_POLICY)
    if policy is None:
        return None
    return {
        name: record["_resources"][value["Ref"]]["PhysicalResourceId"]
        if isinstance(value, dict)
        else value
        for name, value in policy.items()
    }


def _group(records: Records, name: str) -> Group:
    record = records[name]["properties"]
    config = record.get("DeploymentConfigName", "CodeDeployDefault.LambdaAllAtOnce")
    alarms = record.get("AlarmConfiguration", {})
    # Without this setting, a deployment group does not roll back automatically.
    rollback = record.get("AutoRollbackConfiguration", {})
    return Group(
        name=name,
        application=record["ApplicationName"],
        role=record["ServiceRoleArn"],
        steps=steps_of(config, records.get(config, {}).get("properties")),
        alarms=tuple(alarm["Name"] for alarm in alarms.get("Alarms", []))
        if _on(alarms.get("Enabled", True))
        else (),
        rolls_back_on=frozenset(rollback.get("Events", _EVERY_EVENT))
        if _on(rollback.get("Enabled", False))
        else frozenset(),
    )


def _on(value: Any) -> bool:
    return str(value).lower() == "true"


def _refuse_weights(function: str, qualifier: str) -> Any:
    record = lambda_svc._functions.get(function) or {}
    if not _weights(record.get("aliases", {}).get(qualifier, {})):
        return None
    return responses.error_response_json(
        "InvalidParameterValueException",
        "Alias with weights can not be used with Provisioned Concurrency",
        400,
    )
