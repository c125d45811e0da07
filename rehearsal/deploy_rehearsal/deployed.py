"""The resources of the synthesized templates, with their status in the deployed stacks."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy_rehearsal.emulator import Emulator

__all__ = ["DeployedStacks", "Resource", "read_deployed"]


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource of a template, with its status in CloudFormation.

    Attributes:
        stack: The stack's name.
        path: The construct's path below the stack.
        logical_id: Its logical id.
        type: Its type, such as `AWS::Lambda::Alias`.
        properties: Its properties in the template, with intrinsic functions.
        physical_id: Its physical id; None if it does not exist.
        status: Its status in CloudFormation.
    """

    stack: str
    path: str
    logical_id: str
    type: str
    properties: dict[str, Any]
    physical_id: str | None
    status: str

    @property
    def name(self) -> str:
        """The type and the construct's path, for a table."""
        return f"{self.type.removeprefix('AWS::')} {self.path}"


@dataclass(frozen=True, kw_only=True)
class DeployedStacks:
    """The resources and outputs of an environment's stacks."""

    resources: tuple[Resource, ...]
    outputs: dict[str, str]

    def of(self, *types: str) -> Iterator[Resource]:
        """Return the resources of the given types."""
        return (resource for resource in self.resources if resource.type in types)

    def one(self, kind: str) -> Resource:
        """Return the only resource of a type.

        Raises:
            ValueError: The stacks have no such resource, or more than one.
        """
        found = list(self.of(kind))
        if len(found) != 1:
            raise ValueError(f"{len(found)} resources are of type {kind}, one was expected")
        return found[0]


def read_deployed(assembly: Path, aws: Emulator) -> DeployedStacks:
    """Read every template of a cloud assembly and the status of its resources."""
    cloudformation = aws.client("cloudformation")
    resources: list[Resource] = []
    outputs: dict[str, str] = {}
    manifest = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    for artifact, entry in manifest.items():
        if entry["type"] != "aws:cloudformation:stack":
            continue
        name = entry.get("properties", {}).get("stackName", artifact)
        template = json.loads((assembly / entry["properties"]["templateFile"]).read_text())
        found = {
            item["LogicalResourceId"]: item
            for item in cloudformation.describe_stack_resources(StackName=name)["StackResources"]
        }
        for stack in cloudformation.describe_stacks(StackName=name)["Stacks"]:
            outputs |= {o["OutputKey"]: o["OutputValue"] for o in stack.get("Outputs", [])}
        for logical_id, resource in template["Resources"].items():
            path = resource.get("Metadata", {}).get("aws:cdk:path", logical_id)
            item = found.get(logical_id, {})
            resources.append(
                Resource(
                    stack=name,
                    path=path.partition("/")[2].removesuffix("/Resource"),
                    logical_id=logical_id,
                    type=resource["Type"],
                    properties=resource.get("Properties", {}),
                    physical_id=item.get("PhysicalResourceId"),
                    status=item.get("ResourceStatus", "missing"),
                )
            )
    return DeployedStacks(resources=tuple(resources), outputs=outputs)
