"""Others' checks of what the stacks synthesize: cfn-lint, cdk-nag, the CDK's own validation."""

import json
from typing import Any

import pytest
from aws_cdk import App
from cdk_nag import AwsSolutionsChecks, ServerlessChecks
from cfnlint import api
from cfnlint.config import ManualArgs

#: Between them, every resource that any switch makes.
CHECKED = ("production", "snapstart", "all-together")
#: The CDK writes out what a Ref implies as well, in every stack of every app.
IGNORED_BY_CFN_LINT = ["W3005"]


@pytest.mark.parametrize("name", CHECKED)
def test_cfn_lint_finds_nothing(synthesized, name):
    """Every property is one that CloudFormation knows, with a value that it takes."""
    found = [
        f"{stack}: {match}"
        for stack, template in synthesized(name).templates.items()
        for match in api.lint(
            json.dumps(template),
            config=ManualArgs(ignore_checks=IGNORED_BY_CFN_LINT, regions=["us-east-1"]),
        )
    ]
    assert found == []


@pytest.mark.parametrize("name", ["dev", *CHECKED])
@pytest.mark.parametrize("pack", [AwsSolutionsChecks, ServerlessChecks])
def test_cdk_nag_finds_nothing(synthesized, pack, name):
    """Each exception is acknowledged where it stands, with its reason."""
    app = synthesized(name).app
    assert _violations(pack(app), app) == []


def test_cdk_nag_would_find_something():
    """The packs do look: a role with AWS's managed policy and a wildcard is found."""
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
    """No warning and no error is left in what synth reports."""
    found = []
    for name in ("dev", *CHECKED):
        report = synthesized(name).folder / "validation-report.json"
        if report.exists():
            found += [
                violation["ruleName"]
                for plugin in json.loads(report.read_text())["pluginReports"]
                for violation in plugin["violations"]
            ]
    assert found == []


def test_everything_carries_the_tags_that_costs_are_allocated_by(synthesized):
    """What AWS can tag is found in the bill, by project and environment, and by your own tags."""
    wanted = {"Project": "embedding-kit", "EmbeddingKit": "dev", "team": "search"}
    tagged = {
        kind: _tags(resource["Properties"]["Tags"])
        for template in synthesized("placed").templates.values()
        for resource in template["Resources"].values()
        if (kind := resource["Type"]) and "Tags" in resource.get("Properties", {})
    }
    assert {kind for kind, tags in tagged.items() if not wanted.items() <= tags.items()} == set()
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


def _tags(tags: list[dict[str, str]]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in tags}


def _violations(pack: Any, app: App) -> list[tuple[str, str]]:
    return [
        (violation.rule_name, str(resource.resource_logical_id))
        for violation in pack.validate_scope(app).violations
        for resource in violation.violating_resources
    ]


def test_stacks_are_deployed_in_order(synthesized):
    """The image is published into the repository, so the repository comes first."""
    manifest = json.loads((synthesized("dev").folder / "manifest.json").read_text())["artifacts"]
    needed = manifest["EmbeddingKit-dev-Endpoint"]["dependencies"]
    assert "EmbeddingKit-dev-Repository" in needed
    assert "EmbeddingKit-dev-Endpoint" in manifest["EmbeddingKit-dev-Observability"]["dependencies"]


def test_the_image_goes_to_the_environments_own_repository(synthesized):
    """The tag is the content's, and the platform is what the function runs."""
    assets = json.loads(
        (synthesized("dev").folder / "EmbeddingKit-dev-Endpoint.assets.json").read_text()
    )
    (image,) = assets["dockerImages"].values()
    (destination,) = image["destinations"].values()
    assert destination["repositoryName"] == "embedding-kit-dev"
    assert image["source"]["platform"] == "linux/arm64"
    assert image["source"]["dockerBuildArgs"] == {
        "MODEL": "sentence-transformers/all-MiniLM-L6-v2",
        "PRECISION": "int8",
    }
