"""The principals that may publish images, by the policies of bootstrap and of our stack.

The first are in the template of the pinned CLI, the second in that of the environment. An
independent evaluator of IAM policies evaluates both.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tools.rehearsal.image.asset import synthesize

# Starts the CDK and its command. tests/embedding_kit/test_repository.py tests the policy alone.
pytestmark = pytest.mark.slow

ACCOUNT, REGION = "123456789012", "us-east-1"
ROLE = f"cdk-hnb659fds-image-publishing-role-{ACCOUNT}-{REGION}"
PUBLISHER = f"arn:aws:iam::{ACCOUNT}:role/{ROLE}"
EVALUATOR = "tests/embedding_kit/evaluate_policies.mjs"
#: What pushing needs, by the registry's own documentation.
#: https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-push-iam.html
PUSH = {
    "ecr:BatchCheckLayerAvailability",
    "ecr:CompleteLayerUpload",
    "ecr:InitiateLayerUpload",
    "ecr:PutImage",
    "ecr:UploadLayerPart",
}
#: Further actions with which the CLI checks whether an image exists.
LOOK = {"ecr:BatchGetImage", "ecr:DescribeImages", "ecr:DescribeRepositories"}
PULL = {"ecr:GetDownloadUrlForLayer"}
FORBIDDEN = {
    "ecr:BatchDeleteImage",
    "ecr:DeleteLifecyclePolicy",
    "ecr:DeleteRepository",
    "ecr:DeleteRepositoryPolicy",
    "ecr:PutImageTagMutability",
    "ecr:PutLifecyclePolicy",
    "ecr:SetRepositoryPolicy",
}


class _Template(yaml.SafeLoader):
    """Reads CloudFormation's short forms as its long ones."""


def _short_form(loader: yaml.SafeLoader, suffix: str, node: yaml.Node) -> dict[str, object]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value: object = loader.construct_scalar(node)
        return {name: str(value).split(".") if suffix == "GetAtt" else value}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    return {name: loader.construct_mapping(node, deep=True)}


_Template.add_multi_constructor("!", _short_form)


@pytest.fixture(scope="module")
def bootstrap(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Return the policy of the image-publishing role in the template of `cdk bootstrap`."""
    shown = subprocess.run(
        [root / "scripts/node_modules/.bin/cdk", "bootstrap", "--show-template", "--no-notices"],
        cwd=tmp_path_factory.mktemp("bootstrap"),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    resources = yaml.load(shown, _Template)["Resources"]
    found = resources["ImagePublishingRoleDefaultPolicy"]["Properties"]["PolicyDocument"]
    repository = "cdk-hnb659fds-container-assets-${AWS::AccountId}-${AWS::Region}"
    arn = f"arn:aws:ecr:${{AWS::Region}}:${{AWS::AccountId}}:repository/{repository}"
    known = {json.dumps({"Fn::GetAtt": ["ContainerAssetsRepository", "Arn"]}): json.dumps(arn)}
    return _resolved(found, known)


@pytest.fixture(scope="module")
def ours(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict:
    """Our repository's policy, from the environment's own template."""
    assembly = synthesize(root, "dev", tmp_path_factory.mktemp("assembly") / "cdk.out")
    (template,) = assembly.glob("*-Repository.template.json")
    resources = json.loads(template.read_text())["Resources"].values()
    (found,) = (r for r in resources if r["Type"] == "AWS::ECR::Repository")
    return _resolved(found["Properties"]["RepositoryPolicyText"], {})


def _resolved(policy: dict, known: dict[str, str]) -> dict:
    text = json.dumps(policy)
    for reference, value in known.items():
        text = text.replace(reference, value)
    for name, value in (("Partition", "aws"), ("AccountId", ACCOUNT), ("Region", REGION)):
        text = text.replace(json.dumps({"Ref": f"AWS::{name}"}), json.dumps(value))
        text = text.replace(f"${{AWS::{name}}}", value)
    return json.loads(text, object_hook=_joined)


def _joined(value: dict) -> object:
    if "Fn::Sub" in value:
        return value["Fn::Sub"]
    if "Fn::Join" in value:
        return value["Fn::Join"][0].join(value["Fn::Join"][1])
    return value


@pytest.fixture(scope="module")
def allowed(root: Path, bootstrap: dict, ours: dict):
    """Ask which of some actions a principal may do on our repository."""

    def ask(principal: str, actions: set[str], context: dict | None = None) -> set[str]:
        asked = sorted(actions)
        questions = [
            {
                "principal": principal,
                "action": action,
                "resource": f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/embedding-kit-dev",
                "account": ACCOUNT,
                "context": context or {},
                "identity": [bootstrap] if principal == PUBLISHER else [],
                "resource_policy": ours,
            }
            for action in asked
        ]
        done = subprocess.run(
            [
                Path(sys.prefix) / "bin" / "node",
                "--input-type=module",
                "--eval",
                (root / EVALUATOR).read_text(),
            ],
            cwd=root / "scripts",
            input=json.dumps(questions),
            capture_output=True,
            text=True,
            check=True,
        )
        answers = zip(asked, json.loads(done.stdout), strict=True)
        return {action for action, answer in answers if answer}

    return ask


def test_bootstraps_role_may_publish_and_nothing_else(allowed):
    """It may use exactly the actions that a push and the CLI's checks need."""
    asked = PUSH | LOOK | PULL | FORBIDDEN
    assert allowed(PUBLISHER, asked) == PUSH | LOOK | PULL


@pytest.mark.parametrize(
    "principal",
    [
        f"arn:aws:iam::{ACCOUNT}:role/other",
        PUBLISHER.replace("image-publishing", "file-publishing"),
        PUBLISHER.replace(ACCOUNT, "999988887777"),
        PUBLISHER.replace(REGION, "eu-west-1"),
    ],
)
def test_other_principals_may_do_nothing(allowed, principal):
    """Neither another role, nor the role of that name in another account or region."""
    assert allowed(principal, PUSH | LOOK | PULL | FORBIDDEN) == set()


@pytest.mark.parametrize(
    ("account", "may"), [(ACCOUNT, {"ecr:BatchGetImage"} | PULL), ("999988887777", set())]
)
def test_lambda_pulls_only_for_functions_of_this_account(allowed, account, may):
    """The service principal is the same for all accounts."""
    source = f"arn:aws:lambda:{REGION}:{account}:function:embedder"
    context = {"aws:SourceArn": source, "aws:SourceAccount": account}
    asked = PUSH | LOOK | PULL | FORBIDDEN
    assert allowed("lambda.amazonaws.com", asked, context) == may
