"""Test the image repository, its lifecycle rules and its policy."""

import json
from pathlib import Path

import pytest
from aws_cdk import RemovalPolicy
from aws_cdk.assertions import Template

from embedding_kit import EmbeddingRepository, RepositorySettings
from tests.embedding_kit.roles import HOME, Question, may

REPOSITORY = f"arn:aws:ecr:us-east-1:{HOME}:repository/images"
PUBLISHER = f"arn:aws:iam::{HOME}:role/cdk-hnb659fds-image-publishing-role-{HOME}-us-east-1"
#: The role that deploys in another account.
DEPLOYER = "arn:aws:iam::999988887777:role/deploy"
PUSH = (
    "ecr:BatchCheckLayerAvailability",
    "ecr:BatchGetImage",
    "ecr:CompleteLayerUpload",
    "ecr:DescribeImages",
    "ecr:DescribeRepositories",
    "ecr:GetDownloadUrlForLayer",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
)
#: Permissions of bootstrap's image-publishing role: login, and push to bootstrap's repository.
#: https://github.com/aws/aws-cdk-cli, packages/aws-cdk/lib/api/bootstrap/bootstrap-template.yaml
BOOTSTRAP = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": "ecr:GetAuthorizationToken", "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": list(PUSH),
            "Resource": f"arn:aws:ecr:us-east-1:{HOME}:repository/cdk-hnb659fds-container-assets",
        },
    ],
}


@pytest.fixture(scope="session")
def repository(synthesize):
    made: dict[RemovalPolicy, Template] = {}

    def make(policy: RemovalPolicy = RemovalPolicy.RETAIN) -> Template:
        if policy not in made:
            made[policy] = synthesize(
                lambda stack: EmbeddingRepository(
                    stack,
                    "Repository",
                    name="images",
                    removal_policy=policy,
                )
            )
        return made[policy]

    return make


@pytest.fixture(scope="session")
def policy(repository) -> dict:
    """Return the repository's policy with the references of a deployed account."""
    (found,) = repository().find_resources("AWS::ECR::Repository").values()
    text = json.dumps(found["Properties"]["RepositoryPolicyText"])
    replaced = {
        '{"Ref": "AWS::AccountId"}': json.dumps(HOME),
        '{"Ref": "AWS::Partition"}': '"aws"',
        '{"Ref": "AWS::Region"}': '"us-east-1"',
        "${AWS::AccountId}": HOME,
        "${AWS::Partition}": "aws",
        "${AWS::Region}": "us-east-1",
    }
    for token, value in replaced.items():
        text = text.replace(token, value)
    return json.loads(text, object_hook=_joined)


def _joined(value: dict) -> object:
    if "Fn::Sub" in value:
        return value["Fn::Sub"]
    if "Fn::Join" in value:
        separator, parts = value["Fn::Join"]
        return separator.join(parts)
    return value


def test_the_lifecycle_drops_only_what_has_no_tag(repository):
    """Every image in use has a tag that cannot move, so no rule may ever select a tagged image."""
    (found,) = repository().find_resources("AWS::ECR::Repository").values()
    rules = json.loads(found["Properties"]["LifecyclePolicy"]["LifecyclePolicyText"])["rules"]
    assert [rule["selection"]["tagStatus"] for rule in rules] == ["untagged"]


@pytest.fixture(scope="session")
def shared_policy(synthesize) -> dict:
    """Return the statement for the deploying role of another account."""
    template = synthesize(
        lambda stack: EmbeddingRepository(
            stack, "Repository", name="images", settings=RepositorySettings(pull_roles=(DEPLOYER,))
        )
    )
    (found,) = template.find_resources("AWS::ECR::Repository").values()
    (statement,) = (
        statement
        for statement in found["Properties"]["RepositoryPolicyText"]["Statement"]
        if statement["Sid"] == "RolesPull"
    )
    return {"Version": "2012-10-17", "Statement": [statement]}


def test_another_accounts_role_only_pulls(shared_policy):
    """The role that is named, and only with the permission of its own account."""
    wide = {"Effect": "Allow", "Action": "ecr:*", "Resource": "*"}
    cases = [
        ("deploy", "ecr:BatchGetImage", True),
        ("deploy", "ecr:GetDownloadUrlForLayer", True),
        ("deploy", "ecr:PutImage", False),
        ("deploy", "ecr:InitiateLayerUpload", False),
        ("deploy", "ecr:BatchDeleteImage", False),
        ("other", "ecr:BatchGetImage", False),
    ]
    for identity in ([{"Version": "2012-10-17", "Statement": [wide]}], []):
        asked = [
            Question(
                principal=DEPLOYER.replace("deploy", role),
                action=action,
                resource=REPOSITORY,
                resource_policy=shared_policy,
                identity=identity,
            )
            for role, action, _ in cases
        ]
        assert may(*asked) == [bool(identity) and allowed for *_, allowed in cases]


def test_the_documented_permissions_are_enough(shared_policy):
    """The page has the statement for the deploying role of the other account."""
    page = (Path(__file__).parents[2] / "docs" / "releases.md").read_text()
    start = page.index('{\n  "Effect": "Allow",\n  "Action": ["ecr:BatchGetImage"')
    text = page[start : page.index("```", start)].replace("ACCOUNT", HOME)
    statement = json.loads(
        text.replace("REGION", "us-east-1").replace("embedding-kit-dev", "images")
    )
    identity = {"Version": "2012-10-17", "Statement": [statement]}
    asked = [
        Question(
            principal=DEPLOYER,
            action=action,
            resource=REPOSITORY,
            identity=[identity],
            resource_policy=shared_policy,
        )
        for action in ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer", "ecr:PutImage")
    ]
    assert may(*asked) == [True, True, False]


OTHER = "arn:aws:lambda:us-east-1:999988887777:function:embedder"
HERE: dict[str, str] = {}
#: Who may do what: bootstrap's role by its own policy and this one together, Lambda by this one.
CASES = [
    *((PUBLISHER, action, HERE, True) for action in PUSH),
    *(
        (PUBLISHER, f"ecr:{action}", HERE, False)
        for action in ("DeleteRepository", "BatchDeleteImage", "SetRepositoryPolicy")
    ),
    (f"arn:aws:iam::{HOME}:role/other", "ecr:PutImage", HERE, False),
    (PUBLISHER.replace("us-east-1", "eu-west-1"), "ecr:PutImage", HERE, False),
    (PUBLISHER.replace("hnb659fds", "other"), "ecr:PutImage", HERE, False),
    *(
        (
            "lambda.amazonaws.com",
            action,
            {"aws:SourceArn": function, "aws:SourceAccount": account},
            allowed,
        )
        for account, function, allowed in (
            (HOME, f"arn:aws:lambda:us-east-1:{HOME}:function:embedder", True),
            ("999988887777", OTHER, False),
            (HOME, f"arn:aws:lambda:us-east-1:{HOME}:layer:embedder", False),
        )
        for action in ("ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
    ),
]


def test_bootstraps_role_pushes_and_lambda_pulls_for_this_account_and_nothing_else(policy):
    """No other role may push, and Lambda serves all accounts."""
    asked = [
        Question(
            principal=principal,
            action=action,
            resource=REPOSITORY,
            context=context,
            identity=[BOOTSTRAP] if principal == PUBLISHER else [],
            resource_policy=policy,
        )
        for principal, action, context, _ in CASES
    ]
    assert may(*asked) == [allowed for *_, allowed in CASES]
