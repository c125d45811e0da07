"""The plugin: MiniStack's private names still exist, and each added feature works."""

import ast
import json
import re
import subprocess
from pathlib import Path

import pytest

from deploy_rehearsal.emulator import environment_of_ministack

PLUGIN = Path(__file__).with_name("ministack_plugin.py")
MODULES = sorted(PLUGIN.parent.glob("ministack_*.py"))


def in_ministack(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in MiniStack's own environment, beside the plugin."""
    command = [environment_of_ministack(), "-c", code]
    return subprocess.run(command, cwd=PLUGIN.parent, capture_output=True, text=True, check=False)


def test_every_private_name_that_it_touches_is_there():
    """MiniStack may move them with any version: then this fails before a deploy does."""
    done = in_ministack("import ministack_plugin as plugin; plugin.install()")
    assert done.returncode == 0, done.stderr


def test_a_name_that_has_moved_is_reported():
    """Without any one of them the plugin does not install, and the error names it."""
    done = in_ministack(
        "import json, ministack_plugin as plugin\n"
        "missing = {}\n"
        "for module, name in plugin.PRIVATE_NAMES:\n"
        "    kept = getattr(module, name)\n"
        "    delattr(module, name)\n"
        "    try:\n"
        "        plugin.install()\n"
        "    except AttributeError as error:\n"
        "        missing[f'{module.__name__}.{name}'] = str(error)\n"
        "    setattr(module, name, kept)\n"
        "print(json.dumps([missing, len(plugin.PRIVATE_NAMES)]))"
    )
    missing, count = json.loads(done.stdout)
    assert len(missing) == count
    assert missing == {
        name: f"{name} is gone from MiniStack: the plugin must follow" for name in missing
    }


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.stem)
def test_it_touches_nothing_else_that_is_private(module):
    """Each module lists the private names that it uses, so that the test above sees them."""
    text = module.read_text()
    imported = {
        alias.asname or alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("ministack.")
        for alias in node.names
    } | {"app", "cloudformation"}
    used = {
        f"{node.value.id}.{node.attr}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in imported
        and node.attr.startswith("_")
    }
    listed = re.findall(r"\((\w+), \"(\w+)\"\)", text)
    private = {f"{module}.{name}" for module, name in listed if name.startswith("_")}
    assert used == private


def test_capacity_is_read_and_suspended_by_its_own_api(aws, stack):
    """The script that destroys an environment asks for it and suspends it."""
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
                    "ScheduledActions": [
                        {"ScheduledActionName": "workday", "Schedule": "rate(1 day)"}
                    ],
                },
            },
            "Policy": {
                "Type": "AWS::ApplicationAutoScaling::ScalingPolicy",
                "Properties": {
                    "PolicyName": "use",
                    "PolicyType": "TargetTrackingScaling",
                    "ScalingTargetId": {"Ref": "Target"},
                },
            },
        },
    )
    (target,) = scaling.describe_scalable_targets(ServiceNamespace="lambda")["ScalableTargets"]
    assert (target["ResourceId"], target["MinCapacity"], target["MaxCapacity"]) == (resource, 1, 5)
    (policy,) = scaling.describe_scaling_policies(ServiceNamespace="lambda")["ScalingPolicies"]
    assert (policy["PolicyName"], policy["ResourceId"]) == ("use", resource)
    (action,) = scaling.describe_scheduled_actions(ServiceNamespace="lambda")["ScheduledActions"]
    assert action["ScheduledActionName"] == "workday"
    where = {"ServiceNamespace": "lambda", "ResourceId": resource, "ScalableDimension": dimension}
    suspended = {"DynamicScalingInSuspended": True}
    scaling.register_scalable_target(**where, SuspendedState=suspended)
    (target,) = scaling.describe_scalable_targets(ServiceNamespace="lambda")["ScalableTargets"]
    assert target["SuspendedState"] == suspended
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 5)
    where["ResourceId"] = "function:other:live"
    with pytest.raises(scaling.exceptions.ValidationException):
        scaling.register_scalable_target(**where, SuspendedState=suspended)


def test_a_templates_reserved_concurrency_is_reserved(aws, stack):
    """So the setting is read back from Lambda, as on AWS."""
    trust = {"Version": "2012-10-17", "Statement": []}
    properties = {
        "FunctionName": "reserved",
        "PackageType": "Image",
        "Code": {"ImageUri": f"{aws.account}.dkr.ecr.{aws.region}.amazonaws.com/images:1"},
        "Role": {"Fn::GetAtt": ["Role", "Arn"]},
        "ReservedConcurrentExecutions": 20,
    }
    stack(
        "reserved",
        {
            "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": trust}},
            "Function": {"Type": "AWS::Lambda::Function", "Properties": properties},
        },
    )
    found = aws.client("lambda").get_function_concurrency(FunctionName="reserved")
    assert found["ReservedConcurrentExecutions"] == 20


def test_a_budget_stands_with_its_notifications(aws, stack):
    """MiniStack has budgets, only not for CloudFormation."""
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
