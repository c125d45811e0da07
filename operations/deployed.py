"""Find an environment's deployed resources from the outputs of its endpoint's stack."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.session import Session

from embedding_kit.environment import EnvironmentSettings
from operations.environment_session import look_up
from stacks.names import endpoint_stack_name

#: The states of a deployment that has not ended:
#: https://docs.aws.amazon.com/codedeploy/latest/APIReference/API_ListDeployments.html
_RUNNING = ["Created", "Queued", "InProgress", "Baking", "Ready"]


@dataclass(frozen=True, slots=True)
class Deployed:
    """The function and the alias that callers reach."""

    function: str
    alias: str
    #: The status of the stack, as CloudFormation writes it.
    status: str


@dataclass(frozen=True, slots=True)
class DeploymentGroup:
    """CodeDeploy's deployment group that moves the alias."""

    application: str
    name: str

    def running(self, client: Any) -> list[str]:
        """List the deployments that have not ended."""
        deployments: list[str] = client.list_deployments(
            applicationName=self.application,
            deploymentGroupName=self.name,
            includeOnlyStatuses=_RUNNING,
        )["deployments"]
        return deployments

    def last_successful(self, client: Any) -> str | None:
        """Return the id of the last successful deployment; None before the first."""
        group = client.get_deployment_group(
            applicationName=self.application, deploymentGroupName=self.name
        )["deploymentGroupInfo"]
        last: str | None = group.get("lastSuccessfulDeployment", {}).get("deploymentId")
        return last


def find_deployment_group(
    session: Session, environment: EnvironmentSettings
) -> DeploymentGroup | None:
    """Return the group of a deployed endpoint; None if fixed weights split its traffic."""
    client = session.create_client("cloudformation", region_name=environment.region)
    pages = client.get_paginator("list_stack_resources")
    found = {
        resource["ResourceType"]: resource["PhysicalResourceId"]
        for page in pages.paginate(StackName=endpoint_stack_name(environment.name))
        for resource in page["StackResourceSummaries"]
        if resource["ResourceType"].startswith("AWS::CodeDeploy::")
    }
    if "AWS::CodeDeploy::DeploymentGroup" not in found:
        return None
    return DeploymentGroup(
        application=found["AWS::CodeDeploy::Application"],
        name=found["AWS::CodeDeploy::DeploymentGroup"],
    )


def find_deployed(session: Session, environment: EnvironmentSettings) -> Deployed | None:
    """Return the deployed endpoint of an environment; None without a stack or an alias."""
    client = session.create_client("cloudformation", region_name=environment.region)
    found = look_up(client.describe_stacks, StackName=endpoint_stack_name(environment.name))
    if found is None:
        return None
    (stack,) = found["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    if "AliasArn" not in outputs:
        return None
    function, alias = outputs["AliasArn"].split(":")[6:8]
    return Deployed(function=function, alias=alias, status=stack["StackStatus"])


def find_alias(
    session: Session, environment: EnvironmentSettings, deployed: Deployed
) -> dict[str, Any]:
    """Return the alias that callers reach.

    Raises:
        ValueError: It is gone, which CloudFormation does not notice. The message has the command
            that makes it again.
    """
    client = session.create_client("lambda", region_name=environment.region)
    alias: dict[str, Any] | None = look_up(
        client.get_alias, FunctionName=deployed.function, Name=deployed.alias
    )
    if alias is None:
        version = _version_of_alias(session, environment, deployed)
        raise ValueError(
            f"the alias {deployed.alias}, which {endpoint_stack_name(environment.name)} made, was "
            f"deleted by other means; nothing was changed. To make it again: aws lambda "
            f"create-alias --function-name {deployed.function} --name {deployed.alias} "
            f"--function-version {version}, and after it scripts/deploy {environment.argument}"
        )
    return alias


def deployed_template(session: Session, environment: EnvironmentSettings) -> dict[str, Any]:
    """Return the template of the deployed endpoint's stack."""
    client = session.create_client("cloudformation", region_name=environment.region)
    stack = endpoint_stack_name(environment.name)
    template: dict[str, Any] = client.get_template(StackName=stack)["TemplateBody"]
    return template


def versions_of_stack(session: Session, environment: EnvironmentSettings) -> Iterator[str]:
    """Yield the versions that are resources of the stack, which a rollback of it needs."""
    client = session.create_client("cloudformation", region_name=environment.region)
    pages = client.get_paginator("list_stack_resources")
    for page in pages.paginate(StackName=endpoint_stack_name(environment.name)):
        for resource in page["StackResourceSummaries"]:
            if resource["ResourceType"] == "AWS::Lambda::Version":
                yield resource["PhysicalResourceId"].rpartition(":")[2]


def _version_of_alias(
    session: Session, environment: EnvironmentSettings, deployed: Deployed
) -> str:
    """Return the version that the stack's template gives to the alias."""
    for resource in deployed_template(session, environment)["Resources"].values():
        properties = resource.get("Properties", {})
        if resource["Type"] == "AWS::Lambda::Alias" and properties["Name"] == deployed.alias:
            pinned = properties["FunctionVersion"]
            if isinstance(pinned, str):
                return pinned
    # Without a pin of scripts/rollback, it is the stack's own version.
    return next(versions_of_stack(session, environment))
