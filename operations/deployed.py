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
        alias: dict[str, Any] | None = look_up(
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
        for resource in self._resources():
            if resource["ResourceType"] == "AWS::Lambda::Version":
                yield resource["PhysicalResourceId"].rpartition(":")[2]

    def running(self) -> list[str]:
        """List the deployments of CodeDeploy that have not ended."""
        group = self._group()
        if not group:
            return []
        deployments: list[str] = self.client("codedeploy").list_deployments(
            **group, includeOnlyStatuses=_RUNNING
        )["deployments"]
        return deployments

    def last_successful(self) -> str | None:
        """Return the id of the last successful deployment; None before the first."""
        group = self._group()
        if not group:
            return None
        info = self.client("codedeploy").get_deployment_group(**group)["deploymentGroupInfo"]
        last: str | None = info.get("lastSuccessfulDeployment", {}).get("deploymentId")
        return last

    def _group(self) -> dict[str, str]:
        """Return the group that moves the alias; empty if fixed weights split its traffic."""
        found = {
            resource["ResourceType"]: resource["PhysicalResourceId"]
            for resource in self._resources()
        }
        if "AWS::CodeDeploy::DeploymentGroup" not in found:
            return {}
        return {
            "applicationName": found["AWS::CodeDeploy::Application"],
            "deploymentGroupName": found["AWS::CodeDeploy::DeploymentGroup"],
        }

    def _resources(self) -> Iterator[dict[str, str]]:
        pages = self.client("cloudformation").get_paginator("list_stack_resources")
        for page in pages.paginate(StackName=self.stack):
            yield from page["StackResourceSummaries"]

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
    client = session.create_client("cloudformation", region_name=environment.region)
    found = look_up(client.describe_stacks, StackName=endpoint_stack_name(environment.name))
    if found is None:
        return None
    (stack,) = found["Stacks"]
    outputs = {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}
    if "AliasArn" not in outputs:
        return None
    function, alias = outputs["AliasArn"].split(":")[6:8]
    return Deployed(session, environment, function, alias, stack["StackStatus"])
