"""Finds what an environment has deployed, from the outputs of its endpoint's stack."""

from dataclasses import dataclass

from botocore.exceptions import ClientError
from botocore.session import Session

from embedding_kit.environment import Environment
from stacks.names import endpoint_stack_name

__all__ = ["Deployed", "find_deployed"]


@dataclass(frozen=True, slots=True)
class Deployed:
    """The function and the alias that callers reach."""

    function: str
    alias: str
    #: The status of the stack, as CloudFormation writes it.
    status: str
    #: Whether CloudFormation refuses to delete the stack.
    protected: bool


def find_deployed(session: Session, environment: Environment) -> Deployed | None:
    """Return the deployed endpoint of an environment; None without a stack or an alias."""
    client = session.create_client("cloudformation", region_name=environment.region)
    try:
        (stack,) = client.describe_stacks(StackName=endpoint_stack_name(environment.name))["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError":
            return None
        raise
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    if "AliasArn" not in outputs:
        return None
    function, alias = outputs["AliasArn"].split(":")[6:8]
    return Deployed(
        function=function,
        alias=alias,
        status=stack["StackStatus"],
        protected=stack.get("EnableTerminationProtection", False),
    )
