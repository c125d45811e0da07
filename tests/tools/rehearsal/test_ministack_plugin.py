"""The plugin: the names of MiniStack still exist, and features that `dev` does not use work."""

import io
import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest

from tools.rehearsal.deploy.emulator import environment_of_ministack

PLUGIN = Path(__file__).parents[3] / "tools" / "rehearsal" / "ministack"


#: Prints each name of MiniStack that the plugin uses and MiniStack does not have.
MISSING = """
import ast, importlib, pathlib, ministack_plugin
for file in pathlib.Path(ministack_plugin.__file__).parent.glob("ministack_*.py"):
    names = vars(importlib.import_module(file.stem))
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                module = getattr(names.get(name), "__name__", "")
                if module.startswith("ministack.") and not hasattr(names[name], attribute):
                    print(f"{module}.{attribute}")
"""


def test_ministack_has_all_names_that_the_plugin_uses():
    """A version of MiniStack without one of them fails here first."""
    command = [str(environment_of_ministack()), "-c", MISSING]
    # `scripts/test` sets PYTHONSAFEPATH, so that the current folder is not on the path.
    environment = {**os.environ, "PYTHONPATH": str(PLUGIN)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_capacity_can_be_described_and_suspended(aws, stack):
    """`scripts/destroy` uses both calls."""
    scaling = aws.client("application-autoscaling")
    resource = "function:embedder:live"
    dimension = "lambda:function:ProvisionedConcurrency"
    stack(
        "capacity",
        {
            "Target": {
                "Type": "AWS::ApplicationAutoScaling::ScalableTarget",
                "Properties": {
                    "ServiceNamespace": "lambda",
                    "ResourceId": resource,
                    "ScalableDimension": dimension,
                    "MinCapacity": 1,
                    "MaxCapacity": 5,
                },
            },
        },
    )
    (target,) = scaling.describe_scalable_targets(ServiceNamespace="lambda")["ScalableTargets"]
    assert (target["ResourceId"], target["MinCapacity"], target["MaxCapacity"]) == (resource, 1, 5)
    where = {"ServiceNamespace": "lambda", "ResourceId": resource, "ScalableDimension": dimension}
    suspended = {"DynamicScalingInSuspended": True}
    scaling.register_scalable_target(**where, SuspendedState=suspended)
    (target,) = scaling.describe_scalable_targets(ServiceNamespace="lambda")["ScalableTargets"]
    assert target["SuspendedState"] == suspended
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 5)
    where["ResourceId"] = "function:other:live"
    with pytest.raises(scaling.exceptions.ValidationException):
        scaling.register_scalable_target(**where, SuspendedState=suspended)


@pytest.mark.parametrize("package", ["Image", "Zip"])
def test_a_version_with_snapstart_is_active_once_it_is_published(aws, image, package):
    """MiniStack would start the code of a zip, which may be for another processor."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as written:
        written.writestr("app.py", "raise RuntimeError")
    of_zip = {"Runtime": "python3.13", "Handler": "app.handler"}
    client, name = aws.client("lambda"), f"snapstart-{package}"
    client.create_function(
        FunctionName=name,
        Role=aws.make_role(name),
        PackageType=package,
        Code=image("functions:1") if package == "Image" else {"ZipFile": archive.getvalue()},
        SnapStart={"ApplyOn": "PublishedVersions"},
        **({} if package == "Image" else of_zip),
    )
    version = client.publish_version(FunctionName=name)["Version"]
    found = client.get_function_configuration(FunctionName=name, Qualifier=version)
    assert (found["State"], found["SnapStart"]["OptimizationStatus"]) == ("Active", "On")


def test_a_budget_has_its_notifications(aws, stack):
    """Without the plugin, MiniStack does not create budgets of templates."""
    notice = {
        "NotificationType": "ACTUAL",
        "ComparisonOperator": "GREATER_THAN",
        "Threshold": 80,
        "ThresholdType": "PERCENTAGE",
    }
    subscriber = {"SubscriptionType": "EMAIL", "Address": "team@example.com"}
    stack(
        "budget",
        {
            "Budget": {
                "Type": "AWS::Budgets::Budget",
                "Properties": {
                    "Budget": {
                        "BudgetType": "COST",
                        "TimeUnit": "MONTHLY",
                        "BudgetLimit": {"Amount": 50, "Unit": "USD"},
                    },
                    "NotificationsWithSubscribers": [
                        {"Notification": notice, "Subscribers": [subscriber]}
                    ],
                },
            }
        },
    )
    budgets = aws.client("budgets")
    (found,) = budgets.describe_budgets(AccountId=aws.account)["Budgets"]
    assert float(found["BudgetLimit"]["Amount"]) == 50
    notices = budgets.describe_notifications_for_budget(
        AccountId=aws.account, BudgetName=found["BudgetName"]
    )["Notifications"]
    assert [n["Threshold"] for n in notices] == [80]


def test_a_simulation_has_the_conditions_of_the_request(aws):
    """Without the plugin, MiniStack ignores the conditions."""
    key = "lambda:InvokedViaFunctionUrl"
    statement = {
        "Effect": "Allow",
        "Action": "lambda:InvokeFunction",
        "Resource": "*",
        "Condition": {"Bool": {key: "true"}},
    }
    iam = aws.client("iam")
    trust = json.dumps({"Version": "2012-10-17", "Statement": []})
    role = iam.create_role(RoleName="simulated", AssumeRolePolicyDocument=trust)["Role"]
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    iam.put_role_policy(RoleName="simulated", PolicyName="a", PolicyDocument=policy)

    def decide(value):
        entry = {"ContextKeyName": key, "ContextKeyType": "boolean", "ContextKeyValues": [value]}
        found = iam.simulate_principal_policy(
            PolicySourceArn=role["Arn"],
            ActionNames=["lambda:InvokeFunction"],
            ResourceArns=["*"],
            ContextEntries=[entry],
        )
        return found["EvaluationResults"][0]["EvalDecision"]

    assert [decide(value) for value in ("true", "false")] == ["allowed", "implicitDeny"]
