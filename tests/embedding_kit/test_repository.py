"""Test the image repository, its lifecycle rules and its policy."""

import json
from pathlib import Path

import pytest
from aws_cdk.assertions import Template

from embedding_kit import EmbeddingRepository, RepositorySettings
from tests.embedding_kit.roles import HOME, allowed_by, only, resolved

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
def repository(synthesize) -> Template:
    return synthesize(lambda stack: EmbeddingRepository(stack, "Repository", name="images"))


@pytest.fixture(scope="session")
def policy(repository) -> dict:
    """Return the repository's policy with the references of a deployed account."""
    return resolved(only(repository, "AWS::ECR::Repository")["RepositoryPolicyText"])


def test_the_lifecycle_drops_only_what_has_no_tag(repository):
    """Every image in use has a tag that cannot move, so no rule may ever select a tagged image."""
    policy = only(repository, "AWS::ECR::Repository")["LifecyclePolicy"]
    rules = json.loads(policy["LifecyclePolicyText"])["rules"]
    assert [rule["selection"]["tagStatus"] for rule in rules] == ["untagged"]


@pytest.fixture(scope="session")
def shared_policy(synthesize) -> dict:
    """Return the statement for the deploying role of another account."""
    template = synthesize(
        lambda stack: EmbeddingRepository(
            stack, "Repository", name="images", settings=RepositorySettings(pull_roles=(DEPLOYER,))
        )
    )
    policy = only(template, "AWS::ECR::Repository")["RepositoryPolicyText"]
    (statement,) = (
        statement for statement in policy["Statement"] if statement["Sid"] == "RolesPull"
    )
    return {"Version": "2012-10-17", "Statement": [statement]}


PULL = [
    (DEPLOYER, f"ecr:{action}", REPOSITORY)
    for action in ("BatchGetImage", "GetDownloadUrlForLayer")
]


def test_another_accounts_role_only_pulls(shared_policy):
    """The role that is named, and only with the permission of its own account."""
    wide = {"Effect": "Allow", "Action": "ecr:*", "Resource": "*"}
    refused = [
        *(
            (DEPLOYER, f"ecr:{action}", REPOSITORY)
            for action in ("PutImage", "InitiateLayerUpload", "BatchDeleteImage")
        ),
        (DEPLOYER.replace("deploy", "other"), "ecr:BatchGetImage", REPOSITORY),
    ]
    identity = [{"Version": "2012-10-17", "Statement": [wide]}]
    assert allowed_by(PULL + refused, resource_policy=shared_policy, identity=identity) == PULL
    assert allowed_by(PULL + refused, resource_policy=shared_policy) == []


def test_the_documented_permissions_are_enough(shared_policy):
    """The page has the statement for the deploying role of the other account."""
    page = (Path(__file__).parents[2] / "docs" / "releases.md").read_text()
    start = page.index('{\n  "Effect": "Allow",\n  "Action": ["ecr:BatchGetImage"')
    text = page[start : page.index("```", start)].replace("ACCOUNT", HOME)
    statement = json.loads(
        text.replace("REGION", "us-east-1").replace("embedding-kit-dev", "images")
    )
    identity = {"Version": "2012-10-17", "Statement": [statement]}
    questions = [*PULL, (DEPLOYER, "ecr:PutImage", REPOSITORY)]
    assert allowed_by(questions, identity=[identity], resource_policy=shared_policy) == PULL


def _by_lambda(kind: str, account: str = HOME) -> list:
    """Return the pulls of Lambda for a function, or something else, of an account."""
    arn = f"arn:aws:lambda:us-east-1:{account}:{kind}:embedder"
    source = {"aws:SourceArn": arn, "aws:SourceAccount": account}
    return [("lambda.amazonaws.com", action, REPOSITORY, source) for _, action, _ in PULL]


#: Bootstrap's role by its own policy and the repository's together, Lambda by the repository's.
MAY = [*((PUBLISHER, action, REPOSITORY) for action in PUSH), *_by_lambda("function")]
MAY_NOT = [
    *(
        (PUBLISHER, f"ecr:{action}", REPOSITORY)
        for action in ("DeleteRepository", "BatchDeleteImage", "SetRepositoryPolicy")
    ),
    (f"arn:aws:iam::{HOME}:role/other", "ecr:PutImage", REPOSITORY),
    (PUBLISHER.replace("us-east-1", "eu-west-1"), "ecr:PutImage", REPOSITORY),
    (PUBLISHER.replace("hnb659fds", "other"), "ecr:PutImage", REPOSITORY),
    *_by_lambda("function", "999988887777"),
    *_by_lambda("layer"),
]


def test_bootstraps_role_pushes_and_lambda_pulls_for_this_account_and_nothing_else(policy):
    """No other role may push, and Lambda serves all accounts."""
    assert allowed_by(MAY + MAY_NOT, identity=[BOOTSTRAP], resource_policy=policy) == MAY
