"""The commands name bootstrap's roles as the stacks do."""

import json

import pytest
from aws_cdk import DefaultStackSynthesizer

from stacks import bootstrap_qualifier as module
from stacks.bootstrap_qualifier import bootstrap_qualifier
from stacks.bootstrap_role import bootstrap_role

KEY = "@aws-cdk/core:bootstrapQualifier"


@pytest.fixture
def cdk_json(tmp_path, monkeypatch):
    """Return a function that writes the context of cdk.json."""
    file = tmp_path / "cdk.json"
    monkeypatch.setattr(module, "_FILE", file)
    return lambda context: file.write_text(json.dumps({"context": context}))


def test_the_qualifier_is_that_of_cdk_json(cdk_json):
    """The roles that publish images and files have it in their names."""
    cdk_json({KEY: "mine"})
    role = bootstrap_role("image-publishing", account="111122223333", region="eu-central-1")
    name = "cdk-mine-image-publishing-role-111122223333-eu-central-1"
    assert role == f"arn:aws:iam::111122223333:role/{name}"
    role = bootstrap_role("file-publishing", account="111122223333", region="cn-north-1")
    assert role.startswith("arn:aws-cn:iam::111122223333:role/cdk-mine-file-publishing-role-")


def test_without_one_it_is_the_cdks_own(cdk_json):
    """It is written here, because the import of the CDK takes seconds."""
    cdk_json({})
    assert bootstrap_qualifier() == DefaultStackSynthesizer.DEFAULT_QUALIFIER
