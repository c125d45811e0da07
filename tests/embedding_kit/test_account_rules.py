"""Rules for all of an app: one key with the policy that AWS's services need, and its roles."""

import json

import pytest
from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs

from embedding_kit import (
    AlarmTopic,
    EmbeddingBatch,
    EmbeddingEndpoint,
    EmbeddingRepository,
    Hosting,
    apply_role_rules,
    encrypt_logs,
)
from embedding_kit.settings import BatchSettings, RoleRules
from tests.embedding_kit.roles import HOME, Case, allowed_by, of_kind, only, resolved, statements

ARN = f"arn:aws:kms:us-east-1:{HOME}:key/1234abcd-12ab-34cd-56ef-1234567890ab"


def _build(stack: Stack, key: kms.IKey, model) -> None:
    encrypt_logs(stack, key)
    hosting = Hosting(environment_encryption=key)
    EmbeddingEndpoint(stack, "Endpoint", model=model, hosting=hosting)
    settings = BatchSettings(input="s3://example-texts/", output="s3://example-vectors/")
    EmbeddingBatch(stack, "Batch", model=model, settings=settings, hosting=hosting)
    EmbeddingRepository(stack, "Repository", name="images", key=key)
    AlarmTopic(stack, "Notices", key=key)
    logs.LogGroup(stack, "Later")


@pytest.fixture(scope="module")
def imported(synthesize, model):
    """Return the template with an imported key."""
    return synthesize(lambda stack: _build(stack, kms.Key.from_key_arn(stack, "Key", ARN), model))


@pytest.fixture(scope="module")
def created(synthesize, model):
    """Return the template with a key of the app."""
    return synthesize(lambda stack: _build(stack, kms.Key(stack, "Key"), model))


@pytest.mark.parametrize(
    ("kind", "name", "at_least"),
    [
        ("AWS::Lambda::Function", "KmsKeyArn", 4),
        ("AWS::Logs::LogGroup", "KmsKeyId", 6),
        ("AWS::SNS::Topic", "KmsMasterKeyId", 1),
    ],
)
def test_every_resource_has_the_key(imported, kind, name, at_least):
    """So do those of the CDK's provider framework, and those that are added later."""
    resources = of_kind(imported, kind)
    assert len(resources) >= at_least
    assert {properties.get(name) for properties in resources} == {ARN}


def test_no_other_key_is_made_and_no_role_gets_a_permission(imported):
    """Lambda decrypts by a grant, and CloudWatch Logs, ECR and CloudWatch by the key's policy."""
    imported.resource_count_is("AWS::KMS::Key", 0)
    assert "kms:" not in json.dumps(statements(imported))


@pytest.fixture(scope="module")
def policy(created) -> dict:
    """Return the policy of the app's key with the references of a deployed account."""
    text = json.dumps(resolved(only(created, "AWS::KMS::Key")["KeyPolicy"]))
    assert "kms:EncryptionContext:aws:logs:arn" in text
    return json.loads(text.replace("kms:EncryptionContext:aws:logs:arn", CONTEXT))


# The evaluator's name for any key of the encryption context.
CONTEXT = "kms:EncryptionContext:${EncryptionContextKey}"
LOGS = f"arn:aws:logs:us-east-1:{HOME}:log-group:"
GROUP = {CONTEXT: f"{LOGS}one"}
OTHER_GROUP = {CONTEXT: LOGS.replace(HOME, "999988887777") + "one"}
SAME_ACCOUNT, ANOTHER_ACCOUNT = {"aws:SourceAccount": HOME}, {"aws:SourceAccount": "999988887777"}


MAY: list[Case] = [
    ("logs.us-east-1.amazonaws.com", "kms:Encrypt", ARN, GROUP),
    ("logs.us-east-1.amazonaws.com", "kms:GenerateDataKey", ARN, GROUP),
    ("cloudwatch.amazonaws.com", "kms:GenerateDataKey", ARN, SAME_ACCOUNT),
    ("cloudwatch.amazonaws.com", "kms:Decrypt", ARN, SAME_ACCOUNT),
    ("budgets.amazonaws.com", "kms:GenerateDataKey", ARN, SAME_ACCOUNT),
]
MAY_NOT: list[Case] = [
    ("logs.us-east-1.amazonaws.com", "kms:Encrypt", ARN, OTHER_GROUP),
    ("logs.us-east-1.amazonaws.com", "kms:Encrypt", ARN),
    ("logs.us-east-1.amazonaws.com", "kms:CreateGrant", ARN, GROUP),
    ("logs.eu-west-1.amazonaws.com", "kms:Encrypt", ARN, GROUP),
    ("cloudwatch.amazonaws.com", "kms:Decrypt", ARN, ANOTHER_ACCOUNT),
    ("cloudwatch.amazonaws.com", "kms:Encrypt", ARN, SAME_ACCOUNT),
    ("budgets.amazonaws.com", "kms:GenerateDataKey", ARN, ANOTHER_ACCOUNT),
    ("sns.amazonaws.com", "kms:Decrypt", ARN, SAME_ACCOUNT),
]


def test_services_may_use_the_apps_key_for_this_account_only(policy):
    """An independent evaluator reads the key's policy."""
    assert allowed_by(MAY + MAY_NOT, resource_policy=policy) == MAY


BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"


@pytest.mark.parametrize(
    ("rules", "properties"),
    [
        (
            {"permissions_boundary": BOUNDARY, "path": "/team/"},
            {"PermissionsBoundary": BOUNDARY, "Path": "/team/"},
        ),
        ({"path": "/team/"}, {"Path": "/team/"}),
        ({"permissions_boundary": BOUNDARY}, {"PermissionsBoundary": BOUNDARY}),
    ],
)
def test_a_boundary_and_a_path_reach_every_role(synthesize, model, rules, properties):
    """Those of the CDK's provider framework and of Step Functions, and one that is added later."""

    def build(stack: Stack) -> None:
        apply_role_rules(stack, RoleRules(**rules))
        _build(stack, kms.Key(stack, "Key"), model)
        iam.Role(stack, "LaterRole", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))

    roles = of_kind(synthesize(build), "AWS::IAM::Role")
    assert len(roles) >= 7
    for role in roles:
        applied = {name: role[name] for name in ("PermissionsBoundary", "Path") if name in role}
        assert applied == properties
