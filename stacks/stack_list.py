"""The stacks of an environment: those of its file, and those that are deployed.

A table that is removed from the file leaves its stack deployed, reachable and billed: the CDK's
command knows only the stacks of the file.
"""

from dataclasses import dataclass
from typing import Any

from botocore.exceptions import WaiterError
from botocore.session import Session

from embedding_kit.environment import Environment
from embedding_kit.environment_session import place_of_caller
from stacks.bootstrap_role import bootstrap_client
from stacks.existing import possible_stacks

__all__ = ["DeployedStack", "DeployedStacks"]

#: An hour, in seconds: a function in a VPC takes 40 minutes.
_WAIT = {"Delay": 5, "MaxAttempts": 720}


@dataclass(frozen=True, slots=True)
class DeployedStack:
    """A stack of an environment in CloudFormation.

    Attributes:
        name: Its name.
        is_protected: Whether CloudFormation refuses to delete it.
        is_removed: Whether the environment's file no longer has it.
    """

    name: str
    is_protected: bool
    is_removed: bool


class DeployedStacks:
    """The stacks of an environment in CloudFormation.

    The credentials are those of bootstrap's role that deploys, as for the CDK's command; without
    permission to assume it, the caller's own.
    """

    def __init__(self, session: Session, environment: Environment) -> None:
        """Read them, each with those that use it before it."""
        account, region = place_of_caller(session, environment)
        self.place = f"{account}, {region}"
        self._client: Any = bootstrap_client(
            session, "cloudformation", "deploy", account=account, region=region
        )
        pages = self._client.get_paginator("describe_stacks").paginate()
        found = {stack["StackName"]: stack for page in pages for stack in page["Stacks"]}
        self.all = [
            DeployedStack(
                name,
                is_protected=found[name].get("EnableTerminationProtection", False),
                is_removed=not is_in_file,
            )
            for name, is_in_file in reversed(possible_stacks(environment).items())
            # A stack that has only a change set is not deployed.
            if name in found and found[name]["StackStatus"] != "REVIEW_IN_PROGRESS"
        ]

    @property
    def removed(self) -> list[DeployedStack]:
        """Those that the environment's file no longer has."""
        return [stack for stack in self.all if stack.is_removed]

    def delete(self, stack: DeployedStack) -> None:
        """Delete a stack, and wait until it is gone.

        Raises:
            ValueError: CloudFormation could not delete it.
        """
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
