"""The check of the deployed stacks finds missing resources and missing images."""

import json
from pathlib import Path

import pytest

from deploy_rehearsal.callers import make_role
from deploy_rehearsal.deployed import check_deployed, read_deployed
from deploy_rehearsal.docker_client import push_empty
from deploy_rehearsal.emulator import Emulator
from image_rehearsal.report import Report

REPOSITORY = {"Type": "AWS::ECR::Repository", "Properties": {"RepositoryName": "deployed"}}
TOPIC = {"Type": "AWS::SNS::Topic", "Properties": {"TopicName": "deployed"}}
OUTPUT = {"AliasArn": {"Value": "deployed:live"}}


def assembly(folder: Path, resources: dict[str, object]) -> Path:
    """Write a cloud assembly of one stack."""
    properties = {"templateFile": "template.json", "stackName": "deployed"}
    artifact = {"type": "aws:cloudformation:stack", "properties": properties}
    (folder / "template.json").write_text(json.dumps({"Resources": resources}))
    (folder / "manifest.json").write_text(json.dumps({"artifacts": {"deployed": artifact}}))
    return folder


@pytest.fixture(scope="module")
def role(aws: Emulator) -> str:
    return make_role(aws, "deployed")


@pytest.mark.parametrize(
    ("image", "more", "found"),
    [
        ("deployed:1", {}, []),
        ("deployed:1", {"Other": TOPIC}, ["Other (AWS::SNS::Topic): missing"]),
        ("deployed:2", {}, ["2 is not in deployed"]),
        ("another:1", {}, ["another:1 is not in deployed"]),
    ],
)
def test_each_resource_and_the_image_must_exist(  # noqa: PLR0917  (fixtures and parameters)
    aws, stack, role, tmp_path, capsys, image, more, found
):
    """The rows name the resource and the image that are missing."""
    resources = {"Repository": REPOSITORY, "Topic": TOPIC}
    stack("deployed", resources, outputs=OUTPUT)
    push_empty(f"localhost:{aws.port}/deployed:1")
    code = {"ImageUri": f"{aws.registry}/{image}"}
    client = aws.client("lambda")
    client.create_function(FunctionName="deployed", PackageType="Image", Code=code, Role=role)
    report = Report(title="")
    check_deployed(report, aws, read_deployed(assembly(tmp_path, resources | more), aws))
    client.delete_function(FunctionName="deployed")
    images = [{"imageTag": "1"}]
    aws.client("ecr").batch_delete_image(repositoryName="deployed", imageIds=images)
    assert [row.found.removeprefix(f"{aws.registry}/") for row in report.broken] == found
    assert len(report.rows) == 2
    capsys.readouterr()
