"""CodeDeploy for Lambda aliases: deployments that watch alarms, shift weights and roll back.

Every call goes to the emulated APIs with the group's service role, so the role's policy is tested.
Each step lasts `REHEARSAL_STEP_SECONDS`, not the configured minutes. A stack that rolls back moves
its alias at once. CodeDeploy's own messages are approximated.
"""

import dataclasses
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import botocore.session
import ministack_alarms  # noqa: F401 - replaces functions of MiniStack
from botocore.exceptions import BotoCoreError, ClientError
from ministack import app
from ministack.core import iam_actions, lambda_runtime, responses
from ministack.services import cloudwatch
from ministack_patches import arn, records, replaces

_POLL_SECONDS = 0.1
_ON_ALARM, _ON_FAILURE, _ON_REQUEST = _EVENTS = (
    "DEPLOYMENT_STOP_ON_ALARM",
    "DEPLOYMENT_FAILURE",
    "DEPLOYMENT_STOP_ON_REQUEST",
)
_session = botocore.session.get_session()


@dataclasses.dataclass(kw_only=True)
class Deployment:
    """A deployment that moves an alias from an old version to a new one, and its state.

    The group is recorded with its properties; a rollback is a deployment, too.
    """

    group: str
    function: str
    alias: str
    old: str
    new: str
    rolls_back: bool = False
    id: str = dataclasses.field(default_factory=lambda: f"d-{uuid.uuid4().hex[:9].upper()}")
    status: str = "Created"
    message: str = ""
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        # Its deployments outlast the group.
        self.settings: dict[str, Any] = records[self.group]["properties"]


class _EndedError(Exception):
    """The deployment ends before all traffic has shifted."""

    def __init__(self, event: str, message: str) -> None:
        super().__init__(message)
        self.event = event


#: Every deployment of this account, by its id, the oldest first.
_deployments: dict[str, Deployment] = {}


def deploy(deployment: Deployment) -> None:
    """Run a deployment to its end; a RuntimeError says that it failed or was stopped."""
    _deployments[deployment.id] = deployment
    clients = _clients(deployment.settings["ServiceRoleArn"])
    deployment.status = "InProgress"
    try:
        _watch(deployment, clients)
        # While traffic shifts, the alias names the old version and gives the new one a weight:
        # https://docs.aws.amazon.com/lambda/latest/dg/configuring-alias-routing.html
        for weight in _steps(deployment.settings.get("DeploymentConfigName")):
            _route(deployment, clients, deployment.old, {deployment.new: weight})
            end = time.monotonic() + float(os.environ.get("REHEARSAL_STEP_SECONDS", "3"))
            while time.monotonic() < end:
                time.sleep(_POLL_SECONDS)
                cloudwatch._evaluate_all_alarms()
                _watch(deployment, clients)
        # A busy machine may have answered a request to stop after the last poll.
        _watch(deployment, clients)
        _route(deployment, clients, deployment.new, {})
    except (_EndedError, BotoCoreError, ClientError) as error:
        event = error.event if isinstance(error, _EndedError) else _ON_FAILURE
        deployment.message = str(error)
        deployment.status = "Failed" if event == _ON_FAILURE else "Stopped"
        # Otherwise the alias stays as it is, including its weights.
        rollback = deployment.settings.get("AutoRollbackConfiguration", {})
        if _on(rollback.get("Enabled", False)) and event in rollback.get("Events", _EVENTS):
            _roll_back(deployment, clients)
        raise RuntimeError(
            f"CodeDeploy deployment {deployment.id} {deployment.status.lower()}: {error}"
        ) from error
    deployment.status = "Succeeded"


def _steps(config: str | None) -> list[float]:
    """Return the weights of the new version, in order, before it gets all traffic."""
    if config in (None, "CodeDeployDefault.LambdaAllAtOnce"):
        return []
    routing = records[str(config)]["properties"]["TrafficRoutingConfig"]
    shift = routing["Type"].removeprefix("TimeBased")
    percent = int(routing[routing["Type"]][f"{shift}Percentage"])
    final_percent = 100 if shift == "Linear" else percent + 1
    return [weight / 100 for weight in range(percent, final_percent, percent)]


# A rollback is another deployment; one that fails has ended, too:
# https://docs.aws.amazon.com/codedeploy/latest/userguide/deployments-rollback-and-redeploy.html
def _roll_back(failed: Deployment, clients: Mapping[str, Any]) -> None:
    same: dict[str, Any] = {key: getattr(failed, key) for key in ("group", "function", "alias")}
    rollback = Deployment(**same, old=failed.new, new=failed.old, rolls_back=True)
    _deployments[rollback.id] = rollback
    rollback.status = "InProgress"
    try:
        _route(rollback, clients, rollback.new, {})
        rollback.status = "Succeeded"
    except (BotoCoreError, ClientError) as error:
        rollback.message = str(error)
        rollback.status = "Failed"


def _clients(role: str) -> dict[str, Any]:
    """Create clients of the services that CodeDeploy calls, with its service role."""
    function = {"FunctionArn": arn("lambda", "function:codedeploy"), "Role": role}
    keys = lambda_runtime.execution_credentials(function)
    return {
        service: _session.create_client(
            service,
            region_name=responses.get_region(),
            endpoint_url=f"http://localhost:{os.environ['GATEWAY_PORT']}",
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=keys["AWS_SESSION_TOKEN"],
        )
        for service in ("lambda", "cloudwatch")
    }


# An alarm of the group in ALARM stops the deployment, before and during the shift, unless the
# group's alarms are switched off:
# https://docs.aws.amazon.com/codedeploy/latest/userguide/deployment-groups-configure-advanced-options.html
def _watch(deployment: Deployment, clients: Mapping[str, Any]) -> None:
    if deployment.stop.is_set():
        raise _EndedError(_ON_REQUEST, "the deployment was stopped")
    alarms = deployment.settings.get("AlarmConfiguration", {})
    names = [alarm["Name"] for alarm in alarms.get("Alarms", [])]
    if not names or not _on(alarms.get("Enabled", True)):
        return
    firing = clients["cloudwatch"].describe_alarms(AlarmNames=names, StateValue="ALARM")
    if in_alarm := sorted(alarm["AlarmName"] for alarm in firing["MetricAlarms"]):
        raise _EndedError(_ON_ALARM, f"alarms in ALARM: {', '.join(in_alarm)}")


def _route(
    deployment: Deployment, clients: Mapping[str, Any], version: str, weights: dict[str, float]
) -> None:
    clients["lambda"].update_alias(
        FunctionName=deployment.function,
        Name=deployment.alias,
        FunctionVersion=version,
        RoutingConfig={"AdditionalVersionWeights": weights},
    )


def _on(value: Any) -> bool:
    return str(value).lower() == "true"


def _group_arn(application: str, group: str) -> str:
    return str(arn("codedeploy", f"deploymentgroup:{application}/{group}"))


# The API: https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_Operations.html
async def _answer(
    method: str, path: str, headers: dict[str, str], body: bytes, query: dict[str, Any]
) -> Any:
    operation = headers.get("x-amz-target", "").rpartition(".")[2]
    parameters = json.loads(body or b"{}")
    if operation not in _OPERATIONS:
        message = f"not emulated: {operation}"
        return responses.error_response_json("ValidationException", message, 400)
    if "deploymentId" in parameters and parameters["deploymentId"] not in _deployments:
        message = f"{operation}: no such deployment"
        return responses.error_response_json("DeploymentDoesNotExistException", message, 400)
    return responses.json_response(_OPERATIONS[operation](parameters))


app.SERVICE_HANDLERS["codedeploy"] = _answer
iam_actions.SERVICE_TO_IAM_NAMESPACE["codedeploy"] = "codedeploy"


# https://docs.aws.amazon.com/service-authorization/latest/reference/list_awscodedeploy.html
@replaces(iam_actions, "extract_resource_arn")
def _resource(original: Callable[..., Any], service: str, *request: Any) -> Any:
    if service != "codedeploy":
        return original(service, *request)
    parameters = json.loads(request[3] or b"{}")
    if deployment := _deployments.get(parameters.get("deploymentId", "")):
        return _group_arn(deployment.settings["ApplicationName"], deployment.group)
    if "deploymentGroupName" in parameters:
        return _group_arn(parameters["applicationName"], parameters["deploymentGroupName"])
    return "*"


def _listed(asked: dict[str, Any]) -> list[str]:
    """Return the ids of a group's deployments, the newest first."""
    deployments = [
        record.id
        for record in _deployments.values()
        if asked.get("applicationName") in (None, record.settings["ApplicationName"])
        and asked.get("deploymentGroupName") in (None, record.group)
        and record.status in asked.get("includeOnlyStatuses", [record.status])
    ]
    return deployments[::-1]


def _group(asked: dict[str, Any]) -> dict[str, Any]:
    info = {name: asked[name] for name in ("applicationName", "deploymentGroupName")}
    for field, status in (
        ("lastAttemptedDeployment", asked),
        ("lastSuccessfulDeployment", asked | {"includeOnlyStatuses": ["Succeeded"]}),
    ):
        for record in _listed(status)[:1]:
            info[field] = {"deploymentId": record, "status": _deployments[record].status}
    return {"deploymentGroupInfo": info}


def _deployment(asked: dict[str, Any]) -> dict[str, Any]:
    record = _deployments[asked["deploymentId"]]
    info: dict[str, Any] = {
        "applicationName": record.settings["ApplicationName"],
        "deploymentGroupName": record.group,
        "deploymentId": record.id,
        "status": record.status,
        # https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_DeploymentInfo.html
        "creator": "codeDeployRollback" if record.rolls_back else "CloudFormation",
        "computePlatform": "Lambda",
    }
    if record.message:
        info["errorInformation"] = {"message": record.message}
    return {"deploymentInfo": info}


def _targets(asked: dict[str, Any]) -> dict[str, Any]:
    # https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_LambdaTarget.html
    record = _deployments[asked["deploymentId"]]
    info = {
        "functionName": record.function,
        "functionAlias": record.alias,
        "currentVersion": record.old,
        "targetVersion": record.new,
    }
    target = {"deploymentId": record.id, "status": record.status, "lambdaFunctionInfo": info}
    return {"deploymentTargets": [{"deploymentTargetType": "LambdaTarget", "lambdaTarget": target}]}


def _stop(asked: dict[str, Any]) -> dict[str, Any]:
    _deployments[asked["deploymentId"]].stop.set()
    return {"status": "Pending", "statusMessage": ""}


_OPERATIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "BatchGetDeploymentTargets": _targets,
    "GetDeployment": _deployment,
    "GetDeploymentGroup": _group,
    "ListDeployments": lambda asked: {"deployments": _listed(asked)},
    "ListDeploymentTargets": lambda asked: {"targetIds": [asked["deploymentId"]]},
    "StopDeployment": _stop,
}
