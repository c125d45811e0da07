"""What is deployed of an environment: its stacks, their outputs, and its endpoint."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import WaiterError
from botocore.session import Session

from embedding_client.doctor.release import RUNNING
from operations.environment_session import (
    answer_or_none,
    bootstrap_client,
    list_all,
    read_account_and_region,
)
from stacks.environment import EnvironmentSettings
from stacks.names import endpoint_stack_name, possible_stacks

#: An hour, in seconds: a function in a VPC takes 40 minutes.
_WAIT = {"Delay": 5, "MaxAttempts": 720}


@dataclass(frozen=True, slots=True)
class Deployed:
    """The endpoint of an environment on AWS: the function and the alias that callers reach."""

    session: Session
    environment: EnvironmentSettings
    function: str
    alias: str
    #: The status of the stack, as CloudFormation writes it.
    status: str

    @property
    def stack(self) -> str:
        """The name of the endpoint's stack."""
        return endpoint_stack_name(self.environment.name)

    def client(self, service: str) -> Any:
        """Return a client of a service in the environment's region."""
        return self.session.create_client(service, region_name=self.environment.region)

    def read_alias(self) -> dict[str, Any]:
        """Return the alias as Lambda describes it.

        Of one that is gone, which CloudFormation does not notice, the error has the command that
        makes it again.
        """
        alias: dict[str, Any] | None = answer_or_none(
            self.client("lambda").get_alias, FunctionName=self.function, Name=self.alias
        )
        if alias is None:
            raise ValueError(
                f"the alias {self.alias}, which {self.stack} made, was deleted by other means; "
                "nothing was changed. To make it again: aws lambda create-alias --function-name "
                f"{self.function} --name {self.alias} --function-version "
                f"{self._version_of_alias()}, and after it scripts/deploy "
                f"{self.environment.argument}"
            )
        return alias

    def template(self) -> dict[str, Any]:
        """Return the template of the endpoint's stack."""
        answer = self.client("cloudformation").get_template(StackName=self.stack)
        template: dict[str, Any] = answer["TemplateBody"]
        return template

    def versions_of_stack(self) -> Iterator[str]:
        """Yield the versions that are resources of the stack, which a rollback of it needs."""
        for arn in list_resources(
            self.client("cloudformation"), self.stack, "AWS::Lambda::Version"
        ):
            yield arn.rpartition(":")[2]

    def running(self) -> list[str]:
        """List the deployments of CodeDeploy that have not ended."""
        group = self._group()
        if not group:
            return []
        deployments: list[str] = self.client("codedeploy").list_deployments(
            **group, includeOnlyStatuses=[*RUNNING]
        )["deployments"]
        return deployments

    def last_successful(self) -> str | None:
        """Return the id of the last successful deployment; None before the first."""
        group = self._group()
        if not group:
            return None
        info = self.client("codedeploy").get_deployment_group(**group)["deploymentGroupInfo"]
        deployment: str | None = info.get("lastSuccessfulDeployment", {}).get("deploymentId")
        return deployment

    def _group(self) -> dict[str, str]:
        """Return the group that moves the alias; empty if fixed weights split its traffic."""
        client, key = self.client("cloudformation"), "StackResourceSummaries"
        listed = list_all(client, "list_stack_resources", key, StackName=self.stack)
        resources = {item["ResourceType"]: item["PhysicalResourceId"] for item in listed}
        if "AWS::CodeDeploy::DeploymentGroup" not in resources:
            return {}
        return {
            "applicationName": resources["AWS::CodeDeploy::Application"],
            "deploymentGroupName": resources["AWS::CodeDeploy::DeploymentGroup"],
        }

    def _version_of_alias(self) -> str:
        """Return the version that the stack's template gives to the alias."""
        for resource in self.template()["Resources"].values():
            properties = resource.get("Properties", {})
            if resource["Type"] == "AWS::Lambda::Alias" and properties["Name"] == self.alias:
                pinned = properties["FunctionVersion"]
                if isinstance(pinned, str):
                    return pinned
        # Without a pin of scripts/rollback, it is the stack's own version.
        return next(self.versions_of_stack())


def find_deployed(session: Session, environment: EnvironmentSettings) -> Deployed | None:
    """Return the deployed endpoint of an environment; None without a stack or an alias."""
    name = endpoint_stack_name(environment.name)
    status, outputs = status_and_outputs(session, environment, name)
    if "AliasArn" not in outputs:
        return None
    function, alias = outputs["AliasArn"].split(":")[6:8]
    return Deployed(session, environment, function, alias, status)


def status_and_outputs(
    session: Session, environment: EnvironmentSettings, name: str
) -> tuple[str, dict[str, str]]:
    """Return the status and the outputs of a stack; both are empty without the stack."""
    client = session.create_client("cloudformation", region_name=environment.region)
    described = answer_or_none(client.describe_stacks, StackName=name)
    if described is None:
        return "", {}
    (stack,) = described["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    return stack["StackStatus"], outputs


def deleted_stacks(client: Any, name: str) -> list[str]:
    """Return the ids of the deleted stacks with a name, the last one first.

    CloudFormation shows a deleted stack for 90 days, with its resources and events.
    """
    deleted = list_all(
        client, "list_stacks", "StackSummaries", StackStatusFilter=["DELETE_COMPLETE"]
    )
    stacks = [stack for stack in deleted if stack["StackName"] == name]
    stacks.sort(key=lambda stack: stack["CreationTime"], reverse=True)
    return [stack["StackId"] for stack in stacks]


def list_resources(client: Any, stack: str, kind: str) -> Iterator[str]:
    """Yield the physical ids of a stack's resources of a type; `stack` is its name or its id."""
    for resource in list_all(
        client, "list_stack_resources", "StackResourceSummaries", StackName=stack
    ):
        if resource["ResourceType"] == kind and "PhysicalResourceId" in resource:
            yield resource["PhysicalResourceId"]


def list_events(client: Any, stack: str) -> Iterator[tuple[str, str, str]]:
    """Yield type, physical id and status of each event of a stack, by its id; "" if one is not."""
    for event in list_all(client, "describe_stack_events", "StackEvents", StackName=stack):
        resource_type, physical = event.get("ResourceType", ""), event.get("PhysicalResourceId", "")
        yield resource_type, physical, event.get("ResourceStatus", "")


@dataclass(frozen=True, slots=True)
class DeployedStack:
    """A stack of an environment in CloudFormation."""

    name: str
    #: The status as CloudFormation writes it.
    status: str
    #: Whether CloudFormation refuses to delete it.
    is_protected: bool
    #: Whether the environment's file no longer has it.
    is_removed: bool

    def refuses_updates(self, environment: str) -> str | None:
        """Say why CloudFormation takes no update now, and what to do; None if it takes one."""
        if self.status.endswith("_IN_PROGRESS"):
            stop = (
                f", or scripts/rollback {environment}, which stops it and goes back"
                if self.status == "UPDATE_IN_PROGRESS" and self.name.endswith("-Endpoint")
                else ""
            )
            return (
                f"AWS is changing {self.name} ({self.status}), and takes no other change of it; "
                f"allowed: to wait until it ends{stop}"
            )
        commands = {
            "DELETE_FAILED": f"scripts/destroy {environment}",
            "UPDATE_ROLLBACK_FAILED": "aws cloudformation continue-update-rollback --stack-name "
            f"{self.name}",
        }
        if self.status not in commands:
            return None
        return f"{self.name} is {self.status}; allowed: first {commands[self.status]}"


class DeployedStacks:
    """The stacks of an environment in CloudFormation.

    The credentials are those of the role that deploys: see `bootstrap_client`.
    """

    def __init__(self, session: Session, environment: EnvironmentSettings) -> None:
        """Read them, each with those that use it before it."""
        account, region = read_account_and_region(session, environment)
        self.place = f"{account}, {region}"
        self._client: Any = bootstrap_client(
            session, "cloudformation", "deploy", account=account, region=region
        )
        self.all = read_stacks(self._client, environment)

    @property
    def removed(self) -> list[DeployedStack]:
        """Those that the environment's file no longer has."""
        return [stack for stack in self.all if stack.is_removed]

    def delete(self, stack: DeployedStack) -> None:
        """Delete a stack, and wait until it is gone."""
        self._client.delete_stack(StackName=stack.name)
        try:
            self._client.get_waiter("stack_delete_complete").wait(
                StackName=stack.name, WaiterConfig=_WAIT
            )
        except WaiterError as error:
            (stack_now,) = self._client.describe_stacks(StackName=stack.name)["Stacks"]
            raise ValueError(
                f"{stack.name} was not deleted: {stack_now['StackStatus']}, "
                f"{stack_now.get('StackStatusReason', 'no reason given')}; the same command tries "
                "again"
            ) from error


def read_stacks(client: Any, environment: EnvironmentSettings) -> list[DeployedStack]:
    """Read the stacks of an environment from CloudFormation, each with its users before it."""
    described = {
        stack["StackName"]: stack for stack in list_all(client, "describe_stacks", "Stacks")
    }
    return [
        DeployedStack(
            name,
            status=described[name]["StackStatus"],
            is_protected=described[name].get("EnableTerminationProtection", False),
            is_removed=not is_in_file,
        )
        for name, is_in_file in reversed(possible_stacks(environment).items())
        # A stack that has only a change set is not deployed.
        if name in described and described[name]["StackStatus"] != "REVIEW_IN_PROGRESS"
    ]
