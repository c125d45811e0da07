"""Aliases that CloudFormation moves by CodeDeploy, CodeDeploy's API, and what weights forbid.

An alias whose update policy names a deployment group is moved by `ministack_codedeploy`. While an
alias has weights its provisioned concurrency cannot be changed: "Alias with weights can not be used
with Provisioned Concurrency" (https://github.com/hashicorp/terraform/issues/24957).
"""

import json
from collections.abc import Callable
from typing import Any

import ministack_alarms
from ministack import app
from ministack.core import iam_actions, responses
from ministack.services import cloudformation, lambda_svc
from ministack.services.cloudformation import engine, provisioners, stacks
from ministack_codedeploy import Alias, Deployment, Group, deploy, deployments, steps_of

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = (
    (app, "SERVICE_HANDLERS"),
    (cloudformation, "_stacks"),
    (engine, "_extract_deps"),
    (engine, "_intrinsic_references"),
    (iam_actions, "extract_resource_arn"),
    (iam_actions, "SERVICE_TO_IAM_NAMESPACE"),
    (lambda_svc, "_functions"),
    (lambda_svc, "_put_provisioned_concurrency"),
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
    """Let aliases move by CodeDeploy.

    Args:
        records: The resources that the plugin keeps, by physical id: groups and configurations.
    """
    waits = stacks._runs_on_worker_thread
    # A deployment takes time, and calls the server that this thread would block.
    stacks._runs_on_worker_thread = lambda kind: kind == "AWS::Lambda::Alias" or waits(kind)
    # What an update policy refers to comes first, as whatever else a resource refers to.
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
    app.SERVICE_HANDLERS["codedeploy"] = _codedeploy
    iam_actions.SERVICE_TO_IAM_NAMESPACE["codedeploy"] = "codedeploy"
    resource = iam_actions.extract_resource_arn
    iam_actions.extract_resource_arn = lambda service, *request: (
        _group_arn(request) if service == "codedeploy" else resource(service, *request)
    )
    put = lambda_svc._put_provisioned_concurrency
    lambda_svc._put_provisioned_concurrency = lambda function, qualifier, data: (
        _refuse_weights(function, qualifier) or put(function, qualifier, data)
    )


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
    """Read an alias's update policy, its references resolved; None while the stack rolls back."""
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
    # Without a word about it a group of Lambda does not roll back by itself.
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
    alias = record.get("aliases", {}).get(qualifier, {})
    if not alias.get("RoutingConfig", {}).get("AdditionalVersionWeights"):
        return None
    return responses.error_response_json(
        "InvalidParameterValueException",
        "Alias with weights can not be used with Provisioned Concurrency",
        400,
    )


def _group_arn(request: tuple[Any, ...]) -> str:
    """The deployment group that a request is about."""
    _, _, _, body, _, region, account = request
    asked = json.loads(body or b"{}")
    deployment = deployments.get(asked.get("deploymentId", ""))
    if deployment:
        name = f"{deployment.group.application}/{deployment.group.name}"
    elif "deploymentGroupName" in asked:
        name = f"{asked['applicationName']}/{asked['deploymentGroupName']}"
    else:
        return "*"
    return f"arn:aws:codedeploy:{region}:{account}:deploymentgroup:{name}"


async def _codedeploy(
    method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]
) -> Any:
    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    asked = json.loads(body or b"{}")
    if operation == "ListDeployments":
        return responses.json_response({"deployments": _listed(asked)})
    deployment = deployments.get(asked.get("deploymentId", ""))
    if deployment is None:
        return responses.error_response_json(
            "DeploymentDoesNotExistException", f"{operation}: no such deployment", 400
        )
    if operation == "GetDeployment":
        return responses.json_response({"deploymentInfo": _described(deployment)})
    if operation == "StopDeployment":
        deployment.stop.set()
        return responses.json_response({"status": "Pending", "statusMessage": ""})
    if operation == "PutLifecycleEventHookExecutionStatus":
        execution = asked["lifecycleEventHookExecutionId"]
        deployment.answers[execution] = asked["status"]
        return responses.json_response({"lifecycleEventHookExecutionId": execution})
    return responses.error_response_json("ValidationException", f"not emulated: {operation}", 400)


def _listed(asked: dict[str, Any]) -> list[str]:
    statuses = asked.get("includeOnlyStatuses")
    found = [
        deployment.id
        for deployment in deployments.values()
        if asked.get("applicationName") in (None, deployment.group.application)
        and asked.get("deploymentGroupName") in (None, deployment.group.name)
        and (not statuses or deployment.status in statuses)
    ]
    return found[::-1]


def _described(deployment: Deployment) -> dict[str, Any]:
    described: dict[str, Any] = {
        "applicationName": deployment.group.application,
        "deploymentGroupName": deployment.group.name,
        "deploymentId": deployment.id,
        "status": deployment.status,
        "computePlatform": "Lambda",
    }
    if deployment.message:
        described["errorInformation"] = {"message": deployment.message}
    if deployment.rolled_back_on:
        described["rollbackInfo"] = {"rollbackMessage": deployment.rolled_back_on}
    return described
