"""The emulated releases: versions by content, deployments by CodeDeploy, alarms on metrics."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tools.rehearsal.deploy.emulator import Emulator

TRUST = {"Version": "2012-10-17", "Statement": []}
MAY_RELEASE = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["lambda:UpdateAlias", "lambda:InvokeFunction", "cloudwatch:DescribeAlarms"],
            "Resource": "*",
        }
    ],
}
ALARM = {
    "Namespace": "Kit",
    "MetricName": "Failures",
    "Statistic": "Sum",
    "Period": 60,
    "EvaluationPeriods": 1,
    "ComparisonOperator": "GreaterThanThreshold",
    "Threshold": 0,
    "TreatMissingData": "notBreaching",
}


class Release:
    """A stack of a function, its version, and an alias that CodeDeploy moves."""

    def __init__(self, aws: Emulator, name: str, image: Callable[[str], dict[str, str]]) -> None:
        self.aws, self.name, self.image = aws, name, image
        self.cloudformation = aws.client("cloudformation")
        self.lambda_ = aws.client("lambda")
        # Made before a shift of three seconds, in which a busy machine may not make them.
        self.cloudwatch = aws.client("cloudwatch")
        self.codedeploy = aws.client("codedeploy")
        self.settings: dict[str, Any] = {"policy": "RetainExceptOnCreate", "alarms": True}

    def deploy(self, content: str, **settings: Any) -> str:
        """Create or update the stack; return its status in the end."""
        body = json.dumps(
            {
                "Metadata": settings.pop("metadata", {}),
                "Resources": self._resources(content, self.settings | settings),
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
        end = time.monotonic() + 60
        while "IN_PROGRESS" in self.status() and time.monotonic() < end:
            time.sleep(0.05)
        return self.status()

    def status(self) -> str:
        """Return the status of the stack; nothing without one."""
        try:
            found = self.cloudformation.describe_stacks(StackName=self.name)["Stacks"]
        except ClientError:
            return ""
        return str(found[0]["StackStatus"])

    def reasons(self) -> str:
        """Return the reasons in the stack's events."""
        events = self.cloudformation.describe_stack_events(StackName=self.name)["StackEvents"]
        return " ".join(event.get("ResourceStatusReason", "") for event in events)

    def alias(self) -> tuple[str, dict[str, float]]:
        """Return the version of the alias, and the weights of others."""
        found = self.lambda_.get_alias(FunctionName=self.name, Name="live")
        weights = found.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
        return found["FunctionVersion"], weights

    def versions(self) -> list[str]:
        """Return the published versions."""
        found = self.lambda_.list_versions_by_function(FunctionName=self.name)["Versions"]
        return [version["Version"] for version in found if version["Version"] != "$LATEST"]

    def deployments(self) -> list[dict[str, Any]]:
        """Return CodeDeploy's deployments, the newest first."""
        listed = self.codedeploy.list_deployments(applicationName=self.name)["deployments"]
        return [
            self.codedeploy.get_deployment(deploymentId=each)["deploymentInfo"] for each in listed
        ]

    def wait_for_weights(self) -> dict[str, float]:
        """Wait until the alias has weights, and return them."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if weights := self.alias()[1]:
                return weights
            time.sleep(0.05)
        raise AssertionError(f"the alias was never given weights: {self.reasons()}")

    def set_alarm(self, state: str) -> None:
        """Set the state of the group's alarm."""
        self.cloudwatch.set_alarm_state(
            AlarmName=self.name, StateValue=state, StateReason="the test"
        )

    def _resources(self, content: str, settings: dict[str, Any]) -> dict[str, Any]:
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
                "DeletionPolicy": settings["policy"],
            },
            "Alarm": _typed(
                "CloudWatch::Alarm", AlarmName=self.name, **{**ALARM, "MetricName": self.name}
            ),
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
                AlarmConfiguration={"Enabled": settings["alarms"], "Alarms": [{"Name": self.name}]},
                AutoRollbackConfiguration={
                    "Enabled": True,
                    "Events": ["DEPLOYMENT_FAILURE", "DEPLOYMENT_STOP_ON_ALARM"],
                },
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


@pytest.fixture
def release(
    aws: Emulator, image: Callable[[str], dict[str, str]], request: pytest.FixtureRequest
) -> Iterator[Release]:
    """Create a stack with a first version of the content `a`."""
    made = Release(aws, f"release-{hash(request.node.name) % 10**9}", image)
    assert made.deploy("a") == "CREATE_COMPLETE"
    yield made
    made.cloudformation.delete_stack(StackName=made.name)
    made.cloudformation.get_waiter("stack_delete_complete").wait(
        StackName=made.name, WaiterConfig={"Delay": 1, "MaxAttempts": 20}
    )


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


def test_an_alarm_during_the_shift_rolls_everything_back(release):
    """Alias, function and version are as before, and the same content can be deployed again."""
    assert during_the_shift(release, lambda: release.set_alarm("ALARM"), "b") == (
        "UPDATE_ROLLBACK_COMPLETE"
    )
    assert "alarms in ALARM" in release.reasons()
    assert release.alias() == ("1", {})
    assert release.versions() == ["1"]
    code = release.lambda_.get_function(FunctionName=release.name)["Code"]["ImageUri"]
    assert code.endswith(":a")
    release.set_alarm("OK")
    assert release.deploy("b") == "UPDATE_COMPLETE"
    assert release.versions() == ["1", "3"]
    assert release.alias() == ("3", {})


def test_a_stack_that_is_being_changed_cannot_be_updated(release):
    """Neither by a change set, which the CDK uses, nor by `UpdateStack`."""
    refused: list[str] = []

    def update() -> None:
        body = json.dumps({"Resources": {"Topic": _typed("SNS::Topic")}})
        change = {"StackName": release.name, "TemplateBody": body}
        for call, named in (
            (release.cloudformation.create_change_set, {"ChangeSetName": "meanwhile"}),
            (release.cloudformation.update_stack, {}),
        ):
            try:
                call(**change, **named)
            except ClientError as error:
                refused.append(error.response["Error"]["Message"])

    assert during_the_shift(release, update, "b") == "UPDATE_COMPLETE"
    assert [("UPDATE_IN_PROGRESS state" in message) for message in refused] == [True, True]


@pytest.mark.parametrize(("alarms", "version"), [(True, "1"), (False, "2")])
def test_an_alarm_before_the_shift_stops_the_release(release, alarms, version):
    """Unless the group's alarms are off: `ignore_alarm_configuration` renders `Enabled: false`."""
    release.set_alarm("ALARM")
    status = "UPDATE_ROLLBACK_COMPLETE" if alarms else "UPDATE_COMPLETE"
    assert release.deploy("b", alarms=alarms) == status
    assert release.alias() == (version, {})
    if alarms:
        back, failed = release.deployments()
        assert (back["creator"], back["status"]) == ("codeDeployRollback", "Succeeded")
        assert (failed["creator"], failed["status"]) == ("CloudFormation", "Stopped")


def test_a_retained_version_fails_a_deploy_of_the_same_content(release):
    """With Retain, the version of a rolled-back release still exists and cannot be published."""
    release.set_alarm("ALARM")
    assert release.deploy("b", policy="Retain") == "UPDATE_ROLLBACK_COMPLETE"
    assert release.versions() == ["1", "2"]
    release.set_alarm("OK")
    assert release.deploy("b", policy="Retain") == "UPDATE_ROLLBACK_COMPLETE"
    assert "A version for this Lambda function exists ( 2 )" in release.reasons()


def test_a_deployment_can_be_stopped_and_then_leaves_its_weights(release):
    """The group rolls back only on failures and alarms, not after a stop by hand."""
    codedeploy = release.codedeploy
    # For its first request of a service, the emulated AWS takes longer than the shift.
    codedeploy.list_deployments()

    def stop() -> None:
        (running,) = codedeploy.list_deployments(
            applicationName=release.name, includeOnlyStatuses=["InProgress"]
        )["deployments"]
        codedeploy.stop_deployment(deploymentId=running)

    assert during_the_shift(release, stop, "b") == "UPDATE_ROLLBACK_COMPLETE"
    assert release.alias() == ("1", {"2": 0.1})


def test_an_alarm_uses_its_dimensions_and_metric_math(aws, stack):
    """Another version's failures do not count, and the metric math computes a percentage."""

    def metric(short: str, name: str) -> dict[str, Any]:
        named = {
            "Namespace": "Kit",
            "MetricName": name,
            "Dimensions": [{"Name": "Version", "Value": "7"}],
        }
        stat = {"Metric": named, "Stat": "Sum", "Period": 60}
        return {"Id": short, "MetricStat": stat, "ReturnData": False}

    share = {"Id": "share", "Expression": "IF(r > 0, 100 * f / r, 0)", "ReturnData": True}
    alarm = {
        key: value
        for key, value in ALARM.items()
        if key not in {"Namespace", "MetricName", "Statistic", "Period"}
    }
    properties = {
        "AlarmName": "share",
        "Metrics": [metric("f", "Failures"), metric("r", "Requests"), share],
        **alarm,
        "Threshold": 5,
    }
    stack("shares", {"Share": {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}})
    cloudwatch = aws.client("cloudwatch")

    def put(version: str, failures: int) -> str:
        at = [{"Name": "Version", "Value": version}]
        data = [
            {"MetricName": name, "Value": value, "Dimensions": at}
            for name, value in (("Requests", 100), ("Failures", failures))
        ]
        cloudwatch.put_metric_data(Namespace="Kit", MetricData=data)
        (found,) = cloudwatch.describe_alarms(AlarmNames=["share"])["MetricAlarms"]
        return str(found["StateValue"])

    assert put("6", 100) == "INSUFFICIENT_DATA"
    assert put("7", 5) == "OK"
    assert put("7", 20) == "ALARM"


@pytest.mark.parametrize(
    ("missing", "ages", "state"),
    [
        ("ignore", (0,), "INSUFFICIENT_DATA"),
        ("ignore", (0, 2), "INSUFFICIENT_DATA"),
        ("ignore", (0, 1, 2), "ALARM"),
        ("notBreaching", (0, 1), "OK"),
        ("breaching", (0,), "ALARM"),
        ("missing", (0,), "ALARM"),
    ],
)
def test_an_alarm_has_a_point_for_each_period(aws, stack, missing, ages, state):
    """Three of three must breach, and a period without data counts as the alarm says."""
    name = f"periods-{missing}-{len(ages)}"
    properties = {
        **ALARM,
        "AlarmName": name,
        "MetricName": name,
        "EvaluationPeriods": 3,
        "TreatMissingData": missing,
    }
    stack(name, {"Alarm": {"Type": "AWS::CloudWatch::Alarm", "Properties": properties}})
    cloudwatch, now = aws.client("cloudwatch"), time.time()
    data = [{"MetricName": name, "Value": 1, "Timestamp": now - 60 * age} for age in ages]
    cloudwatch.put_metric_data(Namespace="Kit", MetricData=data)
    (found,) = cloudwatch.describe_alarms(AlarmNames=[name])["MetricAlarms"]
    assert found["StateValue"] == state
