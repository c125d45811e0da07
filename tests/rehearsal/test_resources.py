"""Every resource type of the stacks has a check, or is listed as recorded only."""

import re

import pytest

from deploy_rehearsal.aws_only_checks import AWS_ONLY, add_aws_only
from deploy_rehearsal.deployed import DeployedStacks, Resource
from deploy_rehearsal.resources import CHECKS, RECORDED, check_resources
from image_rehearsal.report import Outcome, Report

SNAPSHOTS = "tests/stacks/__snapshots__"
#: Nothing is made for these: the second is the type of a template's parameter.
SILENT = {"AWS::CDK::Metadata", "AWS::SSM::Parameter"}


def resource(kind: str, **properties: object) -> Resource:
    return Resource(
        stack="Stack",
        path="Here",
        logical_id="Here",
        type=kind,
        properties=properties,
        physical_id="here",
        status="CREATE_COMPLETE",
    )


def test_every_type_of_every_snapshot_has_a_check(root):
    """For the environments and each setting's variants: a new type needs a new check."""
    texts = [path.read_text() for path in (root / SNAPSHOTS).rglob("*") if path.is_file()]
    types = {found for text in texts for found in re.findall(r"AWS::\w+::\w+", text)}
    assert "AWS::Lambda::Url" in types
    assert types - SILENT <= CHECKS.keys() | RECORDED.keys()


def test_no_type_is_both_made_and_kept():
    """A recorded resource has nothing to be read back."""
    assert not CHECKS.keys() & RECORDED.keys()


@pytest.mark.parametrize("kind", ["AWS::Glue::Job", "AWS::CodeDeploy::Application"])
def test_what_has_no_check_or_no_record_is_broken(aws, kind, capsys):
    """A type without a check fails."""
    report = Report(title="")
    check_resources(report, aws, DeployedStacks(resources=(resource(kind),), outputs={}))
    assert [row.outcome for row in report.rows] == [Outcome.BROKEN]
    capsys.readouterr()


def test_what_stands_otherwise_than_asked_is_broken(aws, capsys):
    """The check reads the service, not the template."""
    logs = aws.client("logs")
    logs.create_log_group(logGroupName="here")
    logs.put_retention_policy(logGroupName="here", retentionInDays=7)
    deployed = DeployedStacks(
        resources=(
            resource("AWS::Logs::LogGroup", RetentionInDays=7),
            resource("AWS::Logs::LogGroup", RetentionInDays=30),
        ),
        outputs={},
    )
    report = Report(title="")
    check_resources(report, aws, deployed)
    assert [row.outcome for row in report.rows] == [Outcome.HOLDS, Outcome.BROKEN]
    assert report.broken[0].found == "retentionInDays asked 30, found 7"
    logs.delete_log_group(logGroupName="here")
    capsys.readouterr()


def test_what_cannot_be_read_back_is_broken(aws, capsys):
    """An API's refusal is a finding, not the end of the table."""
    report = Report(title="")
    deployed = DeployedStacks(resources=(resource("AWS::SNS::Topic"),), outputs={})
    check_resources(report, aws, deployed)
    (row,) = report.broken
    assert "NotFound" in row.found or "InvalidParameter" in row.found
    capsys.readouterr()


def test_checks_that_need_an_account_are_documented(root):
    """docs/rehearsal.md has a section with commands for each check that needs an account."""
    report = Report(title="")
    add_aws_only(report)
    assert {row.outcome for row in report.rows} == {Outcome.NOT_SHOWN}
    page = (root / "docs" / "rehearsal.md").read_text()
    titles = {line.removeprefix("### ").lower() for line in page.splitlines() if line[:4] == "### "}
    assert {subject.lower() for subject, _, _ in AWS_ONLY} <= titles
