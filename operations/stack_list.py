"""The stacks of an environment: those of its file, and those that are deployed.

A table that is removed from the file leaves its stack deployed, reachable and billed: the CDK's
command knows only the stacks of the file.
"""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import WaiterError
from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from operations.bootstrap_role import bootstrap_client
from operations.environment_session import place_of_caller
from stacks.names import possible_stacks

#: An hour, in seconds: a function in a VPC takes 40 minutes.
_WAIT = {"Delay": 5, "MaxAttempts": 720}


@dataclass(frozen=True, slots=True)
class DeployedStack:
    """A stack of an environment in CloudFormation.

    Attributes:
        name: Its name.
        status: Its status, as CloudFormation writes it.
        is_protected: Whether CloudFormation refuses to delete it.
        is_removed: Whether the environment's file no longer has it.
    """

    name: str
    status: str
    is_protected: bool
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

    The credentials are those of bootstrap's role that deploys, as for the CDK's command; without
    permission to assume it, the caller's own.
    """

    def __init__(self, session: Session, environment: EnvironmentSettings) -> None:
        """Read them, each with those that use it before it."""
        account, region = place_of_caller(session, environment)
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
            (last,) = self._client.describe_stacks(StackName=stack.name)["Stacks"]
            raise ValueError(
                f"{stack.name} was not deleted: {last['StackStatus']}, "
                f"{last.get('StackStatusReason', 'no reason given')}; the same command tries again"
            ) from error


def read_stacks(client: Any, environment: EnvironmentSettings) -> list[DeployedStack]:
    """Read the stacks of an environment from CloudFormation, each with its users before it."""
    pages = client.get_paginator("describe_stacks").paginate()
    found = {stack["StackName"]: stack for page in pages for stack in page["Stacks"]}
    return [
        DeployedStack(
            name,
            status=found[name]["StackStatus"],
            is_protected=found[name].get("EnableTerminationProtection", False),
            is_removed=not is_in_file,
        )
        for name, is_in_file in reversed(possible_stacks(environment).items())
        # A stack that has only a change set is not deployed.
        if name in found and found[name]["StackStatus"] != "REVIEW_IN_PROGRESS"
    ]
