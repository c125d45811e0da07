"""A stack of a function that CodeDeploy releases, in the emulated AWS."""

import json
import threading
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ClientError

from tests.fixtures.waiting import wait_until
from tools.rehearsal.deploy.emulator import Emulator

TRUST = {"Version": "2012-10-17", "Statement": []}
MAY_RELEASE = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["lambda:UpdateAlias", "lambda:InvokeFunction"],
            "Resource": "*",
        }
    ],
}


class Release:
    """A stack of a function, its version, and an alias that CodeDeploy moves."""

    def __init__(self, aws: Emulator, name: str, image: Callable[[str], dict[str, str]]) -> None:
        self.aws, self.name, self.image = aws, name, image
        self.cloudformation = aws.client("cloudformation")
        self.lambda_ = aws.client("lambda")

    def deploy(self, content: str, metadata: dict[str, str] | None = None) -> str:
        """Create or update the stack; return its status in the end."""
        body = json.dumps(
            {
                "Metadata": metadata or {},
                "Resources": self._resources(content),
                "Outputs": {"AliasArn": {"Value": {"Ref": "Alias"}}},
            }
        )
        s3 = self.aws.client("s3")
        s3.create_bucket(Bucket="templates")
        s3.put_object(Bucket="templates", Key=self.name, Body=body)
        cloudformation = self.cloudformation
        call = cloudformation.update_stack if self.status() else cloudformation.create_stack
        url = f"https://s3.{self.aws.region}.amazonaws.com/templates/{self.name}"
        call(StackName=self.name, TemplateURL=url, Capabilities=["CAPABILITY_IAM"])
        wait_until(lambda: "IN_PROGRESS" not in self.status())
        return self.status()

    def status(self) -> str:
        """Return the status of the stack; nothing without one."""
        try:
            found = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"]
        except ClientError:
            return ""
        return str(found[0]["StackStatus"])

    def alias(self) -> tuple[str, dict[str, float]]:
        """Return the version of the alias, and the weights of others."""
        found = self.lambda_.get_alias(FunctionName=self.name, Name="live")
        weights = found.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
        return found["FunctionVersion"], weights

    def versions(self) -> list[str]:
        """Return the published versions."""
        found = self.lambda_.list_versions_by_function(FunctionName=self.name)["Versions"]
        return [version["Version"] for version in found if version["Version"] != "$LATEST"]

    def wait_for_weights(self) -> dict[str, float]:
        """Wait until the alias has weights, and return them."""
        weights: dict[str, float] = {}
        wait_until(lambda: weights.update(self.alias()[1]) or weights)
        return weights

    def _resources(self, content: str) -> dict[str, Any]:
        version = f"Version{content.title()}"
        group = {"ApplicationName": {"Ref": "App"}, "DeploymentGroupName": {"Ref": "Group"}}
        return {
            "Role": _typed(
                "IAM::Role",
                AssumeRolePolicyDocument=TRUST,
                Policies=[{"PolicyName": "may", "PolicyDocument": MAY_RELEASE}],
            ),
            "Function": _typed(
                "Lambda::Function",
                FunctionName=self.name,
                PackageType="Image",
                Code=self.image(f"functions:{content}"),
                Role={"Fn::GetAtt": ["Role", "Arn"]},
            ),
            version: {
                **_typed("Lambda::Version", FunctionName={"Ref": "Function"}),
                "DeletionPolicy": "RetainExceptOnCreate",
            },
            "App": _typed("CodeDeploy::Application", ApplicationName=self.name),
            "Steps": _typed(
                "CodeDeploy::DeploymentConfig",
                ComputePlatform="Lambda",
                TrafficRoutingConfig={
                    "Type": "TimeBasedCanary",
                    "TimeBasedCanary": {"CanaryPercentage": 10, "CanaryInterval": 5},
                },
            ),
            "Group": _typed(
                "CodeDeploy::DeploymentGroup",
                ApplicationName={"Ref": "App"},
                DeploymentConfigName={"Ref": "Steps"},
                ServiceRoleArn={"Fn::GetAtt": ["Role", "Arn"]},
                AlarmConfiguration={"Enabled": False},
                AutoRollbackConfiguration={"Enabled": True, "Events": ["DEPLOYMENT_FAILURE"]},
            ),
            "Alias": {
                **_typed(
                    "Lambda::Alias",
                    FunctionName={"Ref": "Function"},
                    Name="live",
                    FunctionVersion={"Fn::GetAtt": [version, "Version"]},
                ),
                "UpdatePolicy": {"CodeDeployLambdaAliasUpdate": group},
            },
        }


def _typed(kind: str, **properties: Any) -> dict[str, Any]:
    return {"Type": f"AWS::{kind}", "Properties": properties}


def during_the_shift(release: Release, act: Callable[[], None], content: str) -> str:
    """Deploy, act while the alias has weights, and return the stack's status in the end."""
    ended: list[str] = []
    deploying = threading.Thread(target=lambda: ended.append(release.deploy(content)))
    deploying.start()
    try:
        assert release.wait_for_weights() == {"2": 0.1}
        act()
    finally:
        deploying.join()
    return ended[0]
