"""The policies on the page of your own key, roles and resources are those that the kit needs."""

import json
import os
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

os.environ.setdefault("JSII_NODE", str(Path(sys.prefix) / "bin" / "node"))

from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from embedding_kit import EmbeddingRepository
from embedding_kit.storage import repository_statements
from stacks.environment import EnvironmentSettings
from stacks.environment_stacks import EnvironmentStacks
from stacks.key_policy import needed_statements
from tests.embedding_kit.roles import HOME, only, resolved

from .pages import ROOT, blocks

PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
#: Those of its section about your own key, roles and resources.
OWN = PAGE.partition("\n## Your own")[2]
KEY_POLICY, BOUNDARY, REPOSITORY_POLICY = (json.loads(block) for block in blocks(OWN, "json"))
ACCOUNT, REGION = "111122223333", "eu-central-1"
VARIED = {
    "observability": {"tracing": True},
    "alarms": {"emails": ["ops@example.com"]},
    "callers": {"principals": ["o-a1b2c3d4e5/r-ab12/ou-ab12-11111111"]},
    "budget": {"monthly_usd": 10.0},
    "index": {"source": "s3://example-vectors/", "filterable": ["lang"]},
    "ingest": {
        "source": "s3://example-documents/",
        "tags": True,
        "questions": "_questions/golden.jsonl",
    },
    "batch": {
        "input": "s3://example-texts/",
        "output": "s3://example-vectors/",
        "reserved_concurrency": 20,
    },
    "server": {
        "vpc": "vpc-0123456789abcdef0",
        "subnets": ["subnet-0aaaaaaaaaaaaaaa1", "subnet-0aaaaaaaaaaaaaaa2"],
        "clients": ["10.0.0.0/16"],
        "certificate": f"arn:aws:acm:{REGION}:{ACCOUNT}:certificate/1234abcd-12ab",
        "domain_name": "embeddings.example.com",
        "keys_secret": f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:keys-AbCdEf",
    },
    "front": {"callers": [{"name": "search", "rate": 20, "burst": 40}]},
    "encryption": {
        "key": f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    },
}


@pytest.fixture(scope="module")
def environment():
    """Return an environment with every part that has roles."""
    model = {"name": "sentence-transformers/all-MiniLM-L6-v2"}
    return EnvironmentSettings.model_validate({"name": "test", "model": model, **VARIED})


def test_the_keys_policy_is_what_the_kit_asks_for(environment):
    """The page's statements are those that the kit looks for."""
    needed = needed_statements(environment, partition="aws", region=REGION, account=ACCOUNT)
    assert needed == KEY_POLICY


@pytest.mark.slow
def test_the_boundary_allows_what_the_roles_need(environment, tmp_path):
    """Each action of a role is on the page, and each on the page is one of a role."""
    context = json.loads((ROOT / "cdk.json").read_text())["context"]
    app = App(context=context, analytics_reporting=False, outdir=str(tmp_path))
    EnvironmentStacks(app, environment)
    used = {
        action
        for stack in app.synth().stacks
        for resource in stack.template["Resources"].values()
        if resource["Type"] == "AWS::IAM::Policy"
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
        for action in _listed(statement["Action"])
    }
    (statement,) = BOUNDARY["Statement"]
    page = statement["Action"]
    assert [action for action in sorted(used) if not _allowed(action, page)] == []
    assert [name for name in page if not any(_allowed(action, [name]) for action in used)] == []


def _listed(actions: str | list[str]) -> list[str]:
    return [actions] if isinstance(actions, str) else actions


def _allowed(action: str, patterns: list[str]) -> bool:
    return any(fnmatchcase(action, pattern) for pattern in patterns)


def test_the_repositorys_policy_is_that_of_the_kits_own():
    """An existing repository needs what the kit gives to a new one."""
    stack = Stack(App(analytics_reporting=False), "Stack")
    EmbeddingRepository(stack, "Repository", name="images")
    found = resolved(only(Template.from_stack(stack), "AWS::ECR::Repository"))
    text = json.dumps(found["RepositoryPolicyText"]["Statement"])
    text = text.replace(HOME, ACCOUNT).replace("us-east-1", REGION)
    assert json.loads(text) == REPOSITORY_POLICY
    place = {"partition": "aws", "region": REGION, "account": ACCOUNT}
    assert repository_statements(**place, qualifier="hnb659fds") == REPOSITORY_POLICY
