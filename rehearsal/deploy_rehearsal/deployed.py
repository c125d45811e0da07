"""The resources of the synthesized templates, with their status in the deployed stacks."""

import json
from dataclasses import dataclass
from pathlib import Path

from deploy_rehearsal.emulator import Emulator
from image_rehearsal.report import Report

__all__ = ["DeployedStacks", "Resource", "check_deployed", "read_deployed"]


@dataclass(frozen=True, kw_only=True)
class Resource:
    """A resource of a template, with its status in CloudFormation.

    Attributes:
        stack: The stack's name.
        logical_id: Its logical id.
        type: Its type, such as `AWS::Lambda::Alias`.
        physical_id: Its physical id; None if it does not exist.
        status: Its status in CloudFormation.
    """

    stack: str
    logical_id: str
    type: str
    physical_id: str | None
    status: str


@dataclass(frozen=True, kw_only=True)
class DeployedStacks:
    """The resources and outputs of an environment's stacks."""

    resources: tuple[Resource, ...]
    outputs: dict[str, str]

    def one(self, kind: str) -> str:
        """Return the physical id of the only resource of a type.

        Raises:
            ValueError: The stacks have no such resource, or more than one.
        """
        found = [resource for resource in self.resources if resource.type == kind]
        if len(found) != 1:
            raise ValueError(f"{len(found)} resources are of type {kind}, one was expected")
        return str(found[0].physical_id)


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
            if resource["Type"] == "AWS::CDK::Metadata":
                continue
            item = found.get(logical_id, {})
            resources.append(
                Resource(
                    stack=name,
                    logical_id=logical_id,
                    type=resource["Type"],
                    physical_id=item.get("PhysicalResourceId"),
                    status=item.get("ResourceStatus", "missing"),
                )
            )
    return DeployedStacks(resources=tuple(resources), outputs=outputs)


def check_deployed(report: Report, aws: Emulator, deployed: DeployedStacks) -> None:
    """Check that every resource of the templates exists, and an image in its repository.

    Their properties are not read back: the emulator returns the values it was given. Tests of
    the constructs and snapshots of the templates check them.
    """
    for stack in dict.fromkeys(resource.stack for resource in deployed.resources):
        ours = [resource for resource in deployed.resources if resource.stack == stack]
        missing = [
            f"{resource.logical_id} ({resource.type}): {resource.status}"
            for resource in ours
            if resource.physical_id is None or not resource.status.endswith("_COMPLETE")
        ]
        check = "CloudFormation has created each resource of the template"
        found = "; ".join(missing) or f"{len(ours)} resources"
        report.check(stack, check, not missing, by="CloudFormation", found=found)
    if any(resource.type == "AWS::ECR::Repository" for resource in deployed.resources):
        _check_image(report, aws, deployed)


def _check_image(report: Report, aws: Emulator, deployed: DeployedStacks) -> None:
    function = deployed.outputs["AliasArn"].rpartition(":")[0]
    uri = aws.client("lambda").get_function(FunctionName=function)["Code"]["ImageUri"]
    faults = _image_faults(aws, uri, repository=deployed.one("AWS::ECR::Repository"))
    check = "the function's image is in the repository, and is one manifest"
    report.check("image", check, not faults, by="Lambda, ECR", found=faults or uri)


def _image_faults(aws: Emulator, uri: str, *, repository: str) -> str:
    place, _, tag = uri.rpartition(":")
    if place != f"{aws.registry}/{repository}":
        return f"{uri} is not in {repository}"
    found = aws.client("ecr").batch_get_image(
        repositoryName=repository, imageIds=[{"imageTag": tag}]
    )
    manifests = [json.loads(image["imageManifest"]) for image in found["images"]]
    if not manifests:
        return f"{tag} is not in {repository}"
    return f"{tag} is an index" if "manifests" in manifests[0] else ""
