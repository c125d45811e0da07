"""The plugin: MiniStack's private names still exist, and features that `dev` does not use work."""

import ast
import io
import json
import os
import re
import subprocess
import time
import zipfile
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from tools.rehearsal.deploy.callers import make_role
from tools.rehearsal.deploy.emulator import environment_of_ministack

PLUGIN = Path(__file__).parents[3] / "tools/rehearsal/ministack/ministack_plugin.py"
MODULES = sorted(PLUGIN.parent.glob("ministack_*.py"))


def in_ministack(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in MiniStack's own environment, beside the plugin."""
    command = [str(environment_of_ministack()), "-c", code]
    # `scripts/test` sets PYTHONSAFEPATH, so that the current folder is not on the path.
    environment = {**os.environ, "PYTHONPATH": str(PLUGIN.parent)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_all_private_names_exist():
    """A version of MiniStack without one of them fails here first."""
    done = in_ministack("import ministack_plugin as plugin; plugin.install()")
    assert done.returncode == 0, done.stderr


def test_a_missing_private_name_is_an_error():
    """The message has the name."""
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
def test_all_private_names_are_listed(module):
    """Each module lists the private names that it uses."""
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
        Role=make_role(aws, name),
        PackageType=package,
        Code=image("functions:1") if package == "Image" else {"ZipFile": archive.getvalue()},
        SnapStart={"ApplyOn": "PublishedVersions"},
        **({} if package == "Image" else of_zip),
    )
    version = client.publish_version(FunctionName=name)["Version"]
    found = client.get_function_configuration(FunctionName=name, Qualifier=version)
    assert (found["State"], found["SnapStart"]["OptimizationStatus"]) == ("Active", "On")


def test_the_reserved_concurrency_of_a_template_is_set(aws, stack, image):
    """The plugin does as AWS does; MiniStack ignores it."""
    trust = {"Version": "2012-10-17", "Statement": []}
    properties = {
        "FunctionName": "reserved",
        "PackageType": "Image",
        "Code": image("functions:1"),
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


def test_no_more_concurrency_is_reserved_than_the_account_has(aws, image):
    """A hundred of it stays for functions without a reservation."""
    client, role = aws.client("lambda"), make_role(aws, "reserving")
    client.create_function(
        FunctionName="reserving", PackageType="Image", Code=image("functions:1"), Role=role
    )
    client.put_function_concurrency(FunctionName="reserving", ReservedConcurrentExecutions=900)
    with pytest.raises(ClientError, match=r"below its minimum value of \[100\]"):
        client.put_function_concurrency(FunctionName="reserving", ReservedConcurrentExecutions=901)
    client.delete_function(FunctionName="reserving")


def test_a_function_needs_an_image_that_exists_and_is_no_index(aws, image):
    """By tag and by digest, at its creation and at an update."""
    client, role = aws.client("lambda"), make_role(aws, "imaged")
    settings = {"FunctionName": "imaged", "PackageType": "Image", "Role": role}
    missing = {"ImageUri": f"{aws.registry}/functions:missing"}
    with pytest.raises(ClientError, match=r"does not exist\. Provide a valid source image"):
        client.create_function(**settings, Code=missing)
    client.create_function(**settings, Code=image("functions:1"))
    with pytest.raises(ClientError, match="does not exist"):
        client.update_function_code(
            FunctionName="imaged", ImageUri=f"{aws.registry}/functions@sha256:{'0' * 64}"
        )
    aws.client("ecr").put_image(
        repositoryName="functions", imageTag="index", imageManifest=json.dumps({"manifests": []})
    )
    with pytest.raises(ClientError, match="is not supported"):
        client.update_function_code(
            FunctionName="imaged", ImageUri=f"{aws.registry}/functions:index"
        )
    client.delete_function(FunctionName="imaged")


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


def test_a_filter_pattern_matches_json_by_its_fields(aws):
    """Without the plugin, MiniStack matches every message."""
    logs = aws.client("logs")
    logs.create_log_group(logGroupName="patterns")
    logs.create_log_stream(logGroupName="patterns", logStreamName="a")
    records = [
        {"type": "platform.report", "record": {"metrics": {"initDurationMs": 5.5}}},
        {"type": "platform.report", "record": {"metrics": {}}},
        {"type": "platform.start"},
        "text",
    ]
    events = [
        {"timestamp": int(time.time() * 1000), "message": json.dumps(record)} for record in records
    ]
    events.append({**events[0], "message": "not JSON"})
    logs.put_log_events(logGroupName="patterns", logStreamName="a", logEvents=events)
    pattern = (
        '{ ($.type = "platform.report" && $.record.metrics.initDurationMs > 0) || '
        '$.type = "platform.start" }'
    )
    found = logs.filter_log_events(logGroupName="patterns", filterPattern=pattern)["events"]
    assert [json.loads(event["message"]) for event in found] == [records[0], records[2]]
