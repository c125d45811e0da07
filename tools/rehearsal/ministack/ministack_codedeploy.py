"""CodeDeploy for Lambda aliases: checks alarms, runs hooks, shifts weights, and rolls back.

CloudFormation deploys with CodeDeploy if an alias has the update policy
`CodeDeployLambdaAliasUpdate` and its version changes
(https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/aws-attribute-updatepolicy.html).
The rules:

- An alarm of the group in ALARM stops the deployment, before and during the shift, unless the
  group's alarms are switched off
  (https://docs.aws.amazon.com/codedeploy/latest/userguide/deployment-groups-configure-advanced-options.html).
- The deployment waits for the hook's answer and fails unless it is `Succeeded`
  (https://docs.aws.amazon.com/codedeploy/latest/userguide/reference-appspec-file-structure-hooks.html).
- While traffic shifts, the alias names the old version and gives the new one a weight
  (https://docs.aws.amazon.com/lambda/latest/dg/configuring-alias-routing.html).
- A deployment that failed or was stopped is rolled back if the group is configured to do so. The
  rollback is a deployment of its own
  (https://docs.aws.amazon.com/codedeploy/latest/userguide/deployments-rollback-and-redeploy.html).
  Otherwise the alias stays as it is, including its weights.

Every call goes to the emulated APIs with the group's service role, so the role's policy is tested.
Each step lasts `REHEARSAL_STEP_SECONDS`, not the configured minutes. A stack that rolls back moves
its alias at once. CodeDeploy's own messages are approximated.
"""

import dataclasses
import json
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import botocore.session
from botocore.exceptions import BotoCoreError, ClientError
from ministack.core import lambda_runtime, responses
from ministack.services import eventbridge

__all__ = ["PRIVATE_NAMES", "Alias", "Deployment", "Group", "deploy", "deployments", "steps_of"]

PRIVATE_NAMES = ((eventbridge, "_put_events"),)

_POLL_SECONDS = 0.1
_PREDEFINED = re.compile(
    r"CodeDeployDefault\.Lambda(Canary|Linear)(\d+)Percent(?:Every)?(\d+)Minutes?"
)
_ON_ALARM, _ON_FAILURE, _ON_REQUEST = (
    "DEPLOYMENT_STOP_ON_ALARM",
    "DEPLOYMENT_FAILURE",
    "DEPLOYMENT_STOP_ON_REQUEST",
)
#: https://docs.aws.amazon.com/codedeploy/latest/userguide/monitoring-cloudwatch-events.html
_EVENT_STATES = {
    "InProgress": "START",
    "Succeeded": "SUCCESS",
    "Failed": "FAILURE",
    "Stopped": "STOP",
}

_session = botocore.session.get_session()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Group:
    """A deployment group, as CloudFormation resolved it.

    Attributes:
        name: Its name.
        application: Its application's name.
        role: The ARN of its service role.
        steps: The weights of the new version, in order, before it gets all traffic.
        alarms: The names of its alarms; empty if they are disabled.
        rolls_back_on: The events of its automatic rollback.
    """

    name: str
    application: str
    role: str
    steps: tuple[float, ...]
    alarms: tuple[str, ...]
    rolls_back_on: frozenset[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Alias:
    """An alias that moves from one version to another."""

    function: str
    name: str
    old: str
    new: str


@dataclasses.dataclass(kw_only=True)
class Deployment:
    """A deployment and its state; one that rolls another back has the other's id."""

    group: Group
    alias: Alias
    rolls_back: str = ""
    id: str = dataclasses.field(default_factory=lambda: f"d-{uuid.uuid4().hex[:9].upper()}")
    status: str = "Created"
    message: str = ""
    #: The id of the deployment that rolls this one back.
    rolled_back_by: str = ""
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)
    #: The answer of each hook, by its execution id.
    answers: dict[str, str] = dataclasses.field(default_factory=dict)


class _EndedError(Exception):
    """The deployment ends before all traffic has shifted."""

    def __init__(self, event: str, message: str) -> None:
        super().__init__(message)
        self.event = event


#: Every deployment of this account, by its id.
deployments: dict[str, Deployment] = {}


def steps_of(config: str, recorded: Mapping[str, Any] | None) -> tuple[float, ...]:
    """Return the new version's weights of a deployment configuration, before it gets all traffic.

    Args:
        config: Its name.
        recorded: Its properties if a stack created it; AWS's predefined ones have none.
    """
    if recorded:
        routing = recorded["TrafficRoutingConfig"]
        kind = routing["Type"].removeprefix("TimeBased")
        percent = int(routing[routing["Type"]][f"{kind}Percentage"])
    elif found := _PREDEFINED.fullmatch(config):
        kind, percent = found[1], int(found[2])
    else:
        return ()
    last = 100 if kind == "Linear" else percent + 1
    return tuple(weight / 100 for weight in range(percent, last, percent))


def deploy(deployment: Deployment, hooks: Mapping[str, str], evaluate: Callable[[], None]) -> None:
    """Run a deployment to its end.

    Args:
        deployment: The deployment.
        hooks: The functions to run `before` and `after` traffic shifts, by name.
        evaluate: Evaluates the alarms, as CloudWatch does once a minute.

    Raises:
        RuntimeError: The deployment failed or was stopped.
    """
    deployments[deployment.id] = deployment
    clients = _clients(deployment.group.role)
    _set(deployment, "InProgress")
    try:
        _watch(deployment, clients)
        _run_hook(deployment, clients, hooks.get("before"), "BeforeAllowTraffic")
        _watch(deployment, clients)
        for weight in deployment.group.steps:
            _route(deployment, clients, deployment.alias.old, {deployment.alias.new: weight})
            for _ in _time():
                evaluate()
                _watch(deployment, clients)
        # A busy machine may have answered a request to stop after the last poll.
        _watch(deployment, clients)
        _route(deployment, clients, deployment.alias.new, {})
        _run_hook(deployment, clients, hooks.get("after"), "AfterAllowTraffic")
    except (_EndedError, BotoCoreError, ClientError) as error:
        event = error.event if isinstance(error, _EndedError) else _ON_FAILURE
        deployment.message = str(error)
        _set(deployment, "Failed" if event == _ON_FAILURE else "Stopped")
        if event in deployment.group.rolls_back_on:
            _roll_back(deployment, clients)
        raise RuntimeError(
            f"CodeDeploy deployment {deployment.id} {deployment.status.lower()}: {error}"
        ) from error
    _set(deployment, "Succeeded")


def _roll_back(failed: Deployment, clients: Mapping[str, Any]) -> None:
    """Deploy the old version again; a rollback that fails has ended, too."""
    moved = failed.alias
    back = dataclasses.replace(moved, old=moved.new, new=moved.old)
    rollback = Deployment(group=failed.group, alias=back, rolls_back=failed.id)
    deployments[rollback.id] = rollback
    failed.rolled_back_by = rollback.id
    _set(rollback, "InProgress")
    try:
        _route(rollback, clients, back.new, {})
    except (BotoCoreError, ClientError) as error:
        rollback.message = str(error)
        _set(rollback, "Failed")
    else:
        _set(rollback, "Succeeded")


def _clients(role: str) -> dict[str, Any]:
    """Create clients of the services that CodeDeploy calls, with its service role."""
    place = f"{responses.get_region()}:{responses.get_account_id()}"
    session = {"FunctionArn": f"arn:aws:lambda:{place}:function:codedeploy", "Role": role}
    keys = lambda_runtime.execution_credentials(session)
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


def _watch(deployment: Deployment, clients: Mapping[str, Any]) -> None:
    """End the deployment if it was stopped or an alarm is in ALARM."""
    if deployment.stop.is_set():
        raise _EndedError(_ON_REQUEST, "the deployment was stopped")
    if not deployment.group.alarms:
        return
    found = clients["cloudwatch"].describe_alarms(
        AlarmNames=list(deployment.group.alarms), StateValue="ALARM"
    )["MetricAlarms"]
    if found:
        names = ", ".join(sorted(alarm["AlarmName"] for alarm in found))
        raise _EndedError(_ON_ALARM, f"alarms in ALARM: {names}")


def _run_hook(
    deployment: Deployment, clients: Mapping[str, Any], function: str | None, event: str
) -> None:
    if function is None:
        return
    execution = str(uuid.uuid4())
    deployment.answers[execution] = "Pending"
    asked = {"DeploymentId": deployment.id, "LifecycleEventHookExecutionId": execution}
    clients["lambda"].invoke(FunctionName=function, Payload=json.dumps(asked))
    answer = deployment.answers[execution]
    if answer != "Succeeded":
        # AWS waits for the answer for up to an hour.
        raise _EndedError(_ON_FAILURE, f"the hook {event} answered {answer}")


def _route(
    deployment: Deployment, clients: Mapping[str, Any], version: str, weights: dict[str, float]
) -> None:
    clients["lambda"].update_alias(
        FunctionName=deployment.alias.function,
        Name=deployment.alias.name,
        FunctionVersion=version,
        RoutingConfig={"AdditionalVersionWeights": weights},
    )


def _time() -> Iterator[None]:
    """Wait for one step, and yield at each poll."""
    end = time.monotonic() + float(os.environ.get("REHEARSAL_STEP_SECONDS", "3"))
    while time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
        yield


def _set(deployment: Deployment, status: str) -> None:
    """Change the status, and send CodeDeploy's event to EventBridge."""
    deployment.status = status
    place = f"{responses.get_region()}:{responses.get_account_id()}"
    name = f"{deployment.group.application}/{deployment.group.name}"
    eventbridge._put_events(
        {
            "Entries": [
                {
                    "Source": "aws.codedeploy",
                    "DetailType": "CodeDeploy Deployment State-change Notification",
                    "Resources": [f"arn:aws:codedeploy:{place}:deploymentgroup:{name}"],
                    "Detail": json.dumps(
                        {
                            "application": deployment.group.application,
                            "deploymentGroup": deployment.group.name,
                            "deploymentId": deployment.id,
                            "region": responses.get_region(),
                            "state": _EVENT_STATES[status],
                        }
                    ),
                }
            ]
        },
        allow_aws_source=True,
    )
