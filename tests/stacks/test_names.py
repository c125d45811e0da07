"""The commands name bootstrap's roles as the stacks do."""

import json

import pytest
from aws_cdk import DefaultStackSynthesizer

from operations.environment_session import bootstrap_role
from operations.packages import RepositoryAddress
from operations.promotion import Reference
from stacks import names
from stacks.names import bootstrap_qualifier

KEY = "@aws-cdk/core:bootstrapQualifier"


@pytest.fixture
def cdk_json(tmp_path, monkeypatch):
    """Return a function that writes the context of cdk.json."""
    file = tmp_path / "cdk.json"
    monkeypatch.setattr(names, "_CDK_FILE", file)
    return lambda context: file.write_text(json.dumps({"context": context}))


def test_the_qualifier_is_that_of_cdk_json(cdk_json):
    """The roles that publish images and files have it in their names."""
    cdk_json({KEY: "mine"})
    role = bootstrap_role("image-publishing", account="111122223333", region="eu-central-1")
    name = "cdk-mine-image-publishing-role-111122223333-eu-central-1"
    assert role == f"arn:aws:iam::111122223333:role/{name}"
    role = bootstrap_role("file-publishing", account="111122223333", region="cn-north-1")
    assert role.startswith("arn:aws-cn:iam::111122223333:role/cdk-mine-file-publishing-role-")


@pytest.mark.parametrize(
    ("region", "partition", "domain"),
    [
        ("us-east-1", "aws", "amazonaws.com"),
        ("cn-north-1", "aws-cn", "amazonaws.com.cn"),
        ("us-gov-west-1", "aws-us-gov", "amazonaws.com"),
        ("eusc-de-east-1", "aws-eusc", "amazonaws.eu"),
    ],
)
def test_a_role_and_a_registry_are_of_the_regions_partition(region, partition, domain):
    """With the role of another partition, the caller's own credentials would be used."""
    role = bootstrap_role("deploy", account="111122223333", region=region)
    assert role.startswith(f"arn:{partition}:iam::111122223333:role/cdk-")
    address = RepositoryAddress(account="111122223333", region=region, name="embedding-kit-dev")
    assert address.uri == f"111122223333.dkr.ecr.{region}.{domain}/embedding-kit-dev"
    assert Reference.parse(f"{address.uri}@sha256:{'0' * 64}").address == address


def test_a_region_that_does_not_exist_is_an_error():
    """The message has it."""
    with pytest.raises(ValueError, match="there is no region mars-1; allowed: a region of AWS"):
        bootstrap_role("deploy", account="111122223333", region="mars-1")


def test_without_one_it_is_the_cdks_own(cdk_json):
    """It is written here, because the import of the CDK takes seconds."""
    cdk_json({})
    assert bootstrap_qualifier() == DefaultStackSynthesizer.DEFAULT_QUALIFIER
