"""Test that a permissions boundary and a path reach every role."""

import pytest
from aws_cdk import aws_iam as iam

from embedding_kit import EmbeddingBatch, EmbeddingEndpoint, apply_role_rules
from embedding_kit.settings import BatchSettings, RoleRules

BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"


@pytest.fixture(scope="module")
def roles(synthesize, model):
    """Return all roles of a stack with an endpoint, a batch, and a role that is added later."""

    def build(stack):
        apply_role_rules(stack, RoleRules(permissions_boundary=BOUNDARY, path="/team/"))
        EmbeddingEndpoint(stack, "Endpoint", model=model)
        settings = BatchSettings(input="s3://example-texts/", output="s3://example-vectors/")
        EmbeddingBatch(stack, "Batch", model=model, settings=settings)
        iam.Role(stack, "Later", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))

    return synthesize(build).find_resources("AWS::IAM::Role")


def test_every_role_has_the_boundary_and_the_path(roles):
    """Those of the CDK's provider framework and of Step Functions too."""
    assert len(roles) >= 7
    for role in roles.values():
        assert role["Properties"]["PermissionsBoundary"] == BOUNDARY
        assert role["Properties"]["Path"] == "/team/"


def test_one_rule_leaves_the_other_alone(synthesize):
    """A path sets no boundary, and a boundary sets no path."""

    def build(stack, rules):
        apply_role_rules(stack, rules)
        iam.Role(stack, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))

    for rules, kept in (
        (RoleRules(path="/team/"), {"Path"}),
        (RoleRules(permissions_boundary=BOUNDARY), {"PermissionsBoundary"}),
    ):
        template = synthesize(lambda stack, rules=rules: build(stack, rules))
        (role,) = template.find_resources("AWS::IAM::Role").values()
        assert role["Properties"].keys() - {"AssumeRolePolicyDocument"} == kept
