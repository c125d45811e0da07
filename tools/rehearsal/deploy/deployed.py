"""The outputs of an environment's deployed stacks."""

from stacks.names import endpoint_stack_name, observability_stack_name
from tools.rehearsal.deploy.emulator import Emulator

__all__ = ["Outputs", "read_outputs"]

Outputs = dict[str, str]


def read_outputs(aws: Emulator, environment: str) -> Outputs:
    """Read the outputs of the endpoint's stack and of the alarms'."""
    client = aws.client("cloudformation")
    return {
        output["OutputKey"]: output["OutputValue"]
        for stack_name in (endpoint_stack_name, observability_stack_name)
        for stack in client.describe_stacks(StackName=stack_name(environment))["Stacks"]
        for output in stack.get("Outputs", [])
    }
