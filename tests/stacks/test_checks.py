"""Check the synthesized stacks with cfn-lint, cdk-nag and the CDK's own validation."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App
from aws_cdk.assertions import Template
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from embedder.core.settings import EmbedderSettings
from stacks.artifact_stack import ArtifactStack
from stacks.environment_stacks import EnvironmentStacks
from stacks.names import artifact_bucket_name
from tests.stacks.conftest import CONTEXT, of_kind, templates_of

ROOT = Path(__file__).resolve().parents[2]

#: Together they have every resource that any switch adds.
CHECKED = (
    "production",
    "snapstart",
    "all-together",
    "batch",
    "index",
    "server",
    "network",
    "front",
    "private-front",
    "watched",
    "own-key",
    "existing",
    "zip",
    "zip-s3",
)
#: The stacks with images, with the targets that build them.
IMAGES = (("dev", "Endpoint", None), ("batch", "Batch", "batch"), ("index", "Index", "batch"))
#: The CDK adds a DependsOn that a Ref already implies, in every stack of every app.
IGNORED_BY_CFN_LINT = ["W3005"]


@pytest.mark.parametrize("name", CHECKED)
def test_a_function_knows_all_of_its_variables(synthesized, name):
    """A program refuses a variable that it does not know, so one more would end its start."""
    functions = synthesized(name).of_kind("AWS::Lambda::Function")
    assert functions
    for function in functions:
        variables = function.get("Environment", {}).get("Variables", {})
        assert EmbedderSettings.from_env({key: str(value) for key, value in variables.items()})


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("production", marks=pytest.mark.slow),
        pytest.param("snapstart", marks=pytest.mark.slow),
        pytest.param("all-together", marks=pytest.mark.slow),
        pytest.param("batch", marks=pytest.mark.slow),
        pytest.param("front", marks=pytest.mark.slow),
        pytest.param("private-front", marks=pytest.mark.slow),
    ],
)
def test_cfn_lint_finds_nothing(synthesized, name):
    """CloudFormation knows every property and accepts its value."""
    # Its import takes two seconds, of each process that collects the tests.
    from cfnlint import api
    from cfnlint.config import ManualArgs

    findings = [
        f"{stack}: {match}"
        for stack, template in synthesized(name).templates.items()
        for match in api.lint(
            json.dumps(template),
            config=ManualArgs(ignore_checks=IGNORED_BY_CFN_LINT, regions=["us-east-1"]),
        )
    ]
    assert findings == []


@pytest.mark.parametrize("name", ["dev", *CHECKED])
@pytest.mark.parametrize("pack", [AwsSolutionsChecks, ServerlessChecks])
def test_cdk_nag_finds_nothing(synthesized, pack, name):
    """Each finding is acknowledged on its resource, with a reason."""
    app = synthesized(name).app
    assert _violations(pack(app), app) == []


def test_cdk_nag_would_find_something():
    """The packs find a role with AWS's managed policy and a wildcard."""
    from aws_cdk import Stack
    from aws_cdk import aws_lambda as lambda_

    app = App()
    stack = Stack(app, "Stack")
    lambda_.Function(
        stack,
        "Function",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
        handler="index.handler",
        runtime=lambda_.Runtime.PYTHON_3_13,
        tracing=lambda_.Tracing.ACTIVE,
    )
    rules = {rule for rule, _ in _violations(AwsSolutionsChecks(app), app)}
    assert {"AwsSolutions-IAM4", "AwsSolutions-IAM5"} <= {rule.split("[")[0] for rule in rules}


def test_the_cdk_itself_has_no_complaint(synthesized):
    """The report of synth has neither warnings nor errors."""
    violations = []
    for name in ("dev", *CHECKED):
        report = synthesized(name).folder / "validation-report.json"
        if report.exists():
            violations += [
                violation["ruleName"]
                for plugin in json.loads(report.read_text())["pluginReports"]
                for violation in plugin["violations"]
            ]
    assert violations == []


def test_everything_carries_the_tags_that_costs_are_allocated_by(synthesized):
    """Every taggable resource has the tags for project, environment and the user's own tags."""
    expected = {"Project": "embedding-kit", "EmbeddingKit": "dev", "team": "search"}
    tagged = {
        resource_type: _tags(resource["Properties"]["Tags"])
        for template in synthesized("placed").templates.values()
        for resource in template["Resources"].values()
        if (resource_type := resource["Type"]) and "Tags" in resource.get("Properties", {})
    }
    assert {
        resource_type
        for resource_type, tags in tagged.items()
        if not expected.items() <= tags.items()
    } == set()
    assert {
        "AWS::ECR::Repository",
        "AWS::Lambda::Function",
        "AWS::Logs::LogGroup",
        "AWS::IAM::Role",
        "AWS::SNS::Topic",
        "AWS::KMS::Key",
        "AWS::CloudWatch::Alarm",
        "AWS::CodeDeploy::Application",
    } <= set(tagged)


def _tags(tags: list[dict[str, str]] | dict[str, str]) -> dict[str, str]:
    # Systems Manager takes them as a table.
    return tags if isinstance(tags, dict) else {tag["Key"]: tag["Value"] for tag in tags}


def _violations(pack: Any, app: App) -> list[tuple[str, str]]:
    return [
        (violation.rule_name, str(resource.resource_logical_id))
        for violation in pack.validate_scope(app).violations
        for resource in violation.violating_resources
    ]


@pytest.mark.parametrize(
    ("name", "stack", "needed"),
    [
        ("dev", "Observability", "Endpoint"),
        ("index", "Endpoint", "Index"),
        ("zip-s3", "Endpoint", "Artifact"),
        *((name, stack, "Repository") for name, stack, _ in IMAGES),
    ],
)
def test_stacks_are_deployed_in_order(synthesized, name, stack, needed):
    """A stack comes after those that it refers to."""
    artifacts = synthesized(name).artifacts()
    assert f"EmbeddingKit-dev-{needed}" in artifacts[f"EmbeddingKit-dev-{stack}"]["dependencies"]


def test_an_artifact_in_s3_goes_to_the_environments_own_bucket(synthesized):
    """The endpoint's files are published into it."""
    stacks = synthesized("zip-s3")
    bucket = "kit-dev-${AWS::AccountId}-${AWS::Region}"
    assets = json.loads((stacks.folder / "EmbeddingKit-dev-Endpoint.assets.json").read_text())
    published = {
        destination["bucketName"]
        for file in assets["files"].values()
        for destination in file["destinations"].values()
    }
    assert published == {bucket}
    for own in ("Artifact", "Observability"):
        listed = (stacks.folder / f"EmbeddingKit-dev-{own}.assets.json").read_text()
        assert bucket not in listed


def test_a_bucket_in_a_known_account_has_a_plain_name(environments):
    """CloudFormation imports a retained bucket only by a name without functions."""
    own_account = {"account": "111122223333", "region": "eu-west-1"}
    stack = ArtifactStack(App(), environments["zip-s3"].model_copy(update=own_account))
    name = artifact_bucket_name("dev", **own_account)
    assert name == "kit-dev-111122223333-eu-west-1"
    Template.from_stack(stack).has_resource_properties("AWS::S3::Bucket", {"BucketName": name})


def test_the_bucket_of_the_longest_name_is_allowed():
    """S3 takes names of up to 63 characters, and an environment's name has up to 31."""
    name = artifact_bucket_name("a" * 31, account="1" * 12, region="ap-southeast-1")
    assert len(name) == 63


@pytest.mark.parametrize(("name", "stack", "target"), IMAGES)
def test_each_image_goes_to_the_environments_own_repository(synthesized, name, stack, target):
    """A target of the same Dockerfile, with the same model."""
    file = synthesized(name).folder / f"EmbeddingKit-dev-{stack}.assets.json"
    assets = json.loads(file.read_text())
    (image,) = assets["dockerImages"].values()
    (destination,) = image["destinations"].values()
    assert destination["repositoryName"] == "embedding-kit-dev"
    source = image["source"]
    assert (source.get("dockerBuildTarget"), source["platform"]) == (target, "linux/arm64")
    models = {"model": {"name": "sentence-transformers/all-MiniLM-L6-v2"}}
    assert json.loads(source["dockerBuildArgs"]["MODELS"]) == models


@pytest.mark.parametrize("name", ["batch", "index"])
def test_the_state_machine_is_valid(synthesized, name):
    """A validator of Amazon States Language reads the definition as AWS gets it."""
    (machine,) = synthesized(name).of_kind("AWS::StepFunctions::StateMachine")
    separator, pieces = machine["DefinitionString"]["Fn::Join"]
    # References within the definition are ARNs and their parts.
    text = separator.join(piece if isinstance(piece, str) else "aws" for piece in pieces)
    code = (
        "import validator from 'asl-validator'\nconst chunks = []\n"
        "for await (const chunk of process.stdin) chunks.push(chunk)\n"
        "console.log(JSON.stringify(validator(JSON.parse(Buffer.concat(chunks).toString()))))"
    )
    done = subprocess.run(
        [os.environ["JSII_NODE"], "--input-type=module", "--eval", code],
        cwd=ROOT / "scripts",
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {"isValid": True, "errors": []}


@pytest.mark.parametrize(("name", "protected"), [("dev", False), ("production", True)])
def test_production_has_termination_protection(synthesized, name, protected):
    """The CLI sets termination protection on each stack that it deploys."""
    protections = {
        artifact: properties["properties"].get("terminationProtection", False)
        for artifact, properties in synthesized(name).artifacts().items()
        if properties["type"] == "aws:cloudformation:stack"
    }
    assert protections == {
        f"EmbeddingKit-{name}-{stack}": protected
        for stack in ("Repository", "Endpoint", "Observability")
    }


def test_your_own_project_tag_wins_and_the_cost_tag_does_not(environments):
    """IAM would refuse `project` with `Project`; the budget needs the environment's name."""
    from stacks.environment import EnvironmentSettings

    settings = {**dict(environments["dev"]), "tags": {"project": "search"}}
    app = App(analytics_reporting=False)
    EnvironmentStacks(app, EnvironmentSettings(**settings))
    (repository,) = of_kind(templates_of(app)["repository"], "AWS::ECR::Repository")
    assert _tags(repository["Tags"]) == {"project": "search", "EmbeddingKit": "dev"}


@pytest.mark.parametrize("name", ["dev", "all-together", "front", "staging"])
def test_tracing_reaches_all_that_x_ray_can_trace(synthesized, environments, name):
    """Each function of the kit, each state machine and the API are traced, or none is billed."""
    stacks = synthesized(name)
    traced = [
        function.get("TracingConfig") == {"Mode": "Active"}
        for function in stacks.of_kind("AWS::Lambda::Function")
        # The CDK's own function, which waits for the check, takes no such setting.
        if function.get("Runtime", "")[:6] != "nodejs"
    ]
    traced += [
        machine.get("TracingConfiguration", {}).get("Enabled", False)
        for machine in stacks.of_kind("AWS::StepFunctions::StateMachine")
    ]
    traced += [
        stage.get("TracingEnabled", False) for stage in stacks.of_kind("AWS::ApiGateway::Stage")
    ]
    tracing = environments[name].observability.tracing
    assert traced
    assert set(traced) == {tracing}
    assert ("xray:PutTraceSegments" in str(stacks.templates)) == tracing


def test_every_alarm_has_a_section_in_the_runbook(synthesized):
    """Its text ends with the link."""
    sections = {
        line[3:].lower()
        for line in (ROOT / "docs" / "runbook.md").read_text().splitlines()
        if line.startswith("## ")
    }
    links = {
        properties["AlarmDescription"].rpartition("Runbook: docs/runbook.md#")[2]
        for name in CHECKED
        for properties in synthesized(name).of_kind("AWS::CloudWatch::Alarm")
    }
    assert len(links) > 30
    assert links <= sections


def test_every_alarm_notifies_or_is_part_of_the_one_that_pages(synthesized):
    """Those of a release stop it instead, and CodeDeploy's own notice reports it."""
    template = synthesized("all-together").templates["observability"]
    (page,) = of_kind(template, "AWS::CloudWatch::CompositeAlarm")
    alarms = {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    }
    assert alarms
    for name, properties in alarms.items():
        paging = name in str(page["AlarmRule"])
        assert paging != bool(properties.get("AlarmActions")), name


KEPT = {"RetainExceptOnCreate"}


@pytest.mark.parametrize(
    ("name", "kind", "policies"),
    [
        ("all-together", "AWS::S3Vectors::VectorBucket", KEPT),
        ("all-together", "AWS::S3Vectors::Index", KEPT),
        ("all-together", "AWS::S3::Bucket", KEPT),
        ("zip-s3", "AWS::S3::Bucket", KEPT),
        ("dev", "AWS::Lambda::Version", KEPT),
        ("front", "AWS::ApiGateway::Account", {"Retain"}),
        ("snapstart", "AWS::Lambda::Version", {"Delete"}),
    ],
)
def test_what_a_deploy_or_a_destroy_deletes(synthesized, name, kind, policies):
    """Nothing that people have put there, and no version that costs nothing; snapshots cost."""
    resources = [
        resource
        for template in synthesized(name).templates.values()
        for resource in template["Resources"].values()
        if resource["Type"] == kind
    ]
    assert {resource["DeletionPolicy"] for resource in resources} == policies
    replaced = {"Delete" if policies == {"Delete"} else "Retain"}
    assert {resource["UpdateReplacePolicy"] for resource in resources} == replaced


def test_an_existing_log_group_stays_as_it_is(environments):
    """Also where the kit's own resources are retained: the stack has no policy for it."""
    retaining = environments["existing"].model_copy(update={"removal_policy": "retain"})
    app = App(context=CONTEXT, analytics_reporting=False)
    EnvironmentStacks(app, retaining)
    functions = of_kind(templates_of(app)["endpoint"], "AWS::Lambda::Function")
    groups = [function.get("LoggingConfig", {}).get("LogGroup") for function in functions]
    assert "/team/embedder" in groups


def test_the_permissions_of_an_existing_role_are_reported(synthesized):
    """The trust policy and the statements that its owner adds; the stack changes nothing of it."""
    stacks = synthesized("existing")
    (role,) = json.loads((stacks.folder / "iam-policy-report.json").read_text())["roles"]
    assert role["roleName"] == "team/embedder"
    assert role["assumeRolePolicy"][0]["Principal"] == {"Service": "lambda.amazonaws.com"}
    assert {
        action for statement in role["identityPolicyStatements"] for action in statement["Action"]
    } == {"logs:CreateLogStream", "logs:PutLogEvents"}
    assert "team/embedder" not in json.dumps(
        [
            resource
            for resource in stacks.templates["endpoint"]["Resources"].values()
            if resource["Type"].startswith("AWS::IAM::")
        ]
    )


#: A role is passed to these services, and IAM lets no one pass a role of another account. The
#: others take its ARN from a caller.
#: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html
PASSED = {"apigateway", "codedeploy", "ecs-tasks", "events", "lambda"}


def _with_services(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the statements of policies that let a service of AWS do something."""
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, dict) and "Service" in inner.get("Principal", ""):
            yield inner
        elif isinstance(inner, dict | list):
            yield from _with_services(inner)


@pytest.mark.parametrize("name", ["all-together", "server", "questions", "front"])
def test_a_service_acts_for_this_account_alone(synthesized, name):
    """By the source's account or ARN, as another account's alarm or schedule has the same service.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/confused-deputy.html
    """
    stacks = synthesized(name)
    for properties in stacks.of_kind("AWS::IAM::Role"):
        for statement in _with_services(properties):
            service = statement["Principal"]["Service"].partition(".")[0]
            assert ("aws:SourceAccount" in str(statement)) == (service not in PASSED), service
    resources = ("AWS::SQS::QueuePolicy", "AWS::SNS::TopicPolicy", "AWS::ECR::Repository")
    for properties in stacks.of_kind(*resources):
        for statement in _with_services(properties):
            assert "aws:Source" in str(statement), statement
    for properties in stacks.of_kind("AWS::Lambda::Permission"):
        by_service = ".amazonaws.com" in str(properties["Principal"])
        assert "SourceArn" in properties or not by_service, properties
