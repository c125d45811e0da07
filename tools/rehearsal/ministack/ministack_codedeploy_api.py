"""CodeDeploy's API for the deployments of `ministack_codedeploy`.

https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_Operations.html
"""

import json
from collections.abc import Callable
from typing import Any

from ministack import app
from ministack.core import iam_actions, responses
from ministack_codedeploy import Deployment, deployments

__all__ = ["PRIVATE_NAMES", "install"]

PRIVATE_NAMES = (
    (app, "SERVICE_HANDLERS"),
    (iam_actions, "extract_resource_arn"),
    (iam_actions, "SERVICE_TO_IAM_NAMESPACE"),
)


def install() -> None:
    """Answer CodeDeploy's API, and authorize its requests."""
    app.SERVICE_HANDLERS["codedeploy"] = _codedeploy
    iam_actions.SERVICE_TO_IAM_NAMESPACE["codedeploy"] = "codedeploy"
    resource = iam_actions.extract_resource_arn
    iam_actions.extract_resource_arn = lambda service, *request: (
        _group_arn(request) if service == "codedeploy" else resource(service, *request)
    )


def _group_arn(request: tuple[Any, ...]) -> str:
    """Return the ARN of a request's deployment group."""
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
    if operation in _OF_GROUPS:
        return responses.json_response(_OF_GROUPS[operation](asked))
    if operation not in _OF_A_DEPLOYMENT:
        return responses.error_response_json(
            "ValidationException", f"not emulated: {operation}", 400
        )
    deployment = deployments.get(asked.get("deploymentId", ""))
    if deployment is None:
        return responses.error_response_json(
            "DeploymentDoesNotExistException", f"{operation}: no such deployment", 400
        )
    return responses.json_response(_OF_A_DEPLOYMENT[operation](deployment, asked))


def _stop(deployment: Deployment, asked: dict[str, Any]) -> dict[str, Any]:
    deployment.stop.set()
    return {"status": "Pending", "statusMessage": ""}


def _put_hook_status(deployment: Deployment, asked: dict[str, Any]) -> dict[str, Any]:
    execution = asked["lifecycleEventHookExecutionId"]
    deployment.answers[execution] = asked["status"]
    return {"lifecycleEventHookExecutionId": execution}


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


def _group_info(asked: dict[str, Any]) -> dict[str, Any]:
    # https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_DeploymentGroupInfo.html
    info: dict[str, Any] = {
        "applicationName": asked["applicationName"],
        "deploymentGroupName": asked["deploymentGroupName"],
    }
    for field, statuses in (
        ("lastAttemptedDeployment", None),
        ("lastSuccessfulDeployment", ["Succeeded"]),
    ):
        for deployment in _listed({**asked, "includeOnlyStatuses": statuses})[:1]:
            status = deployments[deployment].status
            info[field] = {"deploymentId": deployment, "status": status}
    return info


def _target_id(deployment: Deployment) -> str:
    return f"{deployment.alias.function}:{deployment.alias.name}"


def _target(deployment: Deployment) -> dict[str, Any]:
    # https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_LambdaTarget.html
    info = {
        "functionName": deployment.alias.function,
        "functionAlias": deployment.alias.name,
        "currentVersion": deployment.alias.old,
        "targetVersion": deployment.alias.new,
    }
    target = {
        "deploymentId": deployment.id,
        "targetId": _target_id(deployment),
        "status": deployment.status,
        "lambdaFunctionInfo": info,
    }
    return {"deploymentTargetType": "LambdaTarget", "lambdaTarget": target}


def _described(deployment: Deployment) -> dict[str, Any]:
    described: dict[str, Any] = {
        "applicationName": deployment.group.application,
        "deploymentGroupName": deployment.group.name,
        "deploymentId": deployment.id,
        "status": deployment.status,
        # https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_DeploymentInfo.html
        "creator": "codeDeployRollback" if deployment.rolls_back else "CloudFormation",
        "computePlatform": "Lambda",
    }
    if deployment.message:
        described["errorInformation"] = {"message": deployment.message}
    if deployment.rolled_back_by:
        described["rollbackInfo"] = {"rollbackDeploymentId": deployment.rolled_back_by}
    if deployment.rolls_back:
        described["rollbackInfo"] = {"rollbackTriggeringDeploymentId": deployment.rolls_back}
    return described


_OF_GROUPS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "GetDeploymentGroup": lambda asked: {"deploymentGroupInfo": _group_info(asked)},
    "ListDeployments": lambda asked: {"deployments": _listed(asked)},
}
_OF_A_DEPLOYMENT: dict[str, Callable[[Deployment, dict[str, Any]], dict[str, Any]]] = {
    "BatchGetDeploymentTargets": lambda deployment, _: {"deploymentTargets": [_target(deployment)]},
    "GetDeployment": lambda deployment, _: {"deploymentInfo": _described(deployment)},
    "ListDeploymentTargets": lambda deployment, _: {"targetIds": [_target_id(deployment)]},
    "PutLifecycleEventHookExecutionStatus": _put_hook_status,
    "StopDeployment": _stop,
}
