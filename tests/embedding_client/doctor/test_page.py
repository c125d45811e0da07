"""docs/doctor.md: its policy, its table of checks and its example are those of the package."""

import json
import re
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import botocore.session
import pytest
from botocore import xform_name

import embedding_client.doctor
from embedding_client.doctor.access import (
    judge_certificate,
    judge_identity,
    judge_signed,
    judge_unsigned,
)
from embedding_client.doctor.checkup import CHECKS, Result
from embedding_client.doctor.findings import ok
from embedding_client.doctor.outside import Certificate, Reply
from embedding_client.doctor.permissions import (
    CONDITIONS,
    Evidence,
    Principal,
    judge_permissions,
)
from embedding_client.doctor.release import (
    judge_release,
    judge_stacks,
    judge_version,
    judge_weights,
)
from embedding_client.doctor.report import as_lines

from .conftest import ACCOUNT, NOW, ROLE

ROOT = Path(__file__).resolve().parents[3]
PREFIXES = {"stepfunctions": "states"}
ACTIONS = {"s3:ListObjectsV2": "s3:ListBucket"}


def called():
    """Return the actions of all calls in the package's source."""
    session = botocore.session.Session()
    source = "".join(
        path.read_text() for path in Path(embedding_client.doctor.__file__).parent.glob("*.py")
    )
    calls = re.findall(r'\.(?:call|find|iterate|pages)\(\s*"([\w-]+)",\s*"(\w+)"', source)
    for service, operation in set(calls):
        names = session.get_service_model(service).operation_names
        (name,) = [name for name in names if xform_name(name) == operation]
        action = f"{PREFIXES.get(service, service)}:{name}"
        yield ACTIONS.get(action, action)


def test_the_policy_has_exactly_the_actions_that_are_called():
    """It also has the two permissions of a caller. GetCallerIdentity needs no permission."""
    (block,) = re.findall(
        r"```json\n(.*?)```", (ROOT / "docs" / "doctor.md").read_text(), re.DOTALL
    )
    listed = [statement["Action"] for statement in json.loads(block)["Statement"]]
    allowed = {name for names in listed for name in ([names] if isinstance(names, str) else names)}
    assert allowed == {*called(), *CONDITIONS} - {"sts:GetCallerIdentity"}


@pytest.mark.parametrize("name", ["dev", "eleven-long", "twelve-longs", "thirteen-long", "n" * 31])
def test_the_policy_is_for_the_function_of_an_environment_of_any_name(name):
    """CloudFormation keeps 25 characters of the stack's name in the name of its function."""
    page = (ROOT / "docs" / "doctor.md").read_text()
    (block,) = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert "`SHORT` (the first 12 characters of `NAME`" in page
    (resources,) = (
        statement["Resource"]
        for statement in json.loads(block)["Statement"]
        if "lambda:GetFunction" in statement["Action"]
    )
    stack = f"EmbeddingKit-{name}-Endpoint"
    function = f"function:{stack[:25]}-EndpointEmbedder12345678-AbCdEfGhIjKl"
    wanted = f"arn:aws:lambda:REGION:ACCOUNT:{function}"
    assert [one for one in resources if fnmatchcase(wanted, one.replace("SHORT", name[:12]))]


def test_each_check_is_in_the_table():
    """In the order of the report."""
    page = (ROOT / "docs" / "doctor.md").read_text()
    table = page.partition("## Checks")[2].partition("## Permissions")[0]
    assert re.findall(r"^\| ([\w ]+) \|", table, re.MULTILINE)[1:] == [c.name for c in CHECKS]


def test_each_link_into_the_documentation_exists():
    """A section of a page in docs/."""
    source = "".join(
        path.read_text() for path in Path(embedding_client.doctor.__file__).parent.glob("*.py")
    )
    links = set(re.findall(r"docs/([\w-]+\.md)#([\w-]+)", source))
    assert links
    for page, section in links:
        titles = re.findall(r"^#+ (.+)$", (ROOT / "docs" / page).read_text(), re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}
        assert section in slugs, (page, section)


def test_the_example_is_a_report():
    """Each line is one that the package prints."""
    page = (ROOT / "docs" / "doctor.md").read_text()
    (block,) = re.findall(r"```text\n(.*?)```", page, re.DOTALL)
    url = re.search(r"https://\S+", block)[0]
    vector = json.dumps({"embedding": [0] * 384}).encode()
    stacks = dict.fromkeys(("Repository", "Endpoint", "Observability"), "UPDATE_COMPLETE")
    weights = {"RoutingConfig": {"AdditionalVersionWeights": {"8": 0.25}}}
    version = {"FunctionVersion": "7", "Version": "7", "State": "Active", "MemorySize": 1769}
    release = {"deploymentId": "d-A1B2C3", "status": "Succeeded"}
    simulated = dict.fromkeys(CONDITIONS, "allowed")
    arn = f"arn:aws:sts::{ACCOUNT}:assumed-role/doctor/me"
    certificate = Certificate("TLSv1.3", NOW + timedelta(days=212))
    evidence = Evidence(200, ACCOUNT, None, simulated)
    findings = {
        "credentials": judge_identity({"Arn": arn}, "us-east-1"),
        "dns": ok(f"{url.removeprefix('https://')}: 192.0.2.1"),
        "tls": judge_certificate(certificate, NOW),
        "unsigned": judge_unsigned(Reply(403, {}, b"", 1)),
        "signed": judge_signed(Reply(200, {}, vector, 60), NOW),
        "permissions": judge_permissions(Principal(ACCOUNT, ROLE), evidence),
        "stacks": judge_stacks(stacks),
        "last release": judge_release(release | {"completeTime": NOW - timedelta(hours=2)}, NOW),
        "weights": judge_weights(version | weights, by="", name="dev"),
        "version": judge_version(version),
    }
    results = [Result(c, findings[c.name]) for c in CHECKS if c.name in findings]
    printed = [line for line in as_lines(results, title=f"dev at {url}", color=False) if line]
    shown = [line for line in block.splitlines() if line not in {"", "..."}]
    # The last line counts all checks, of which the page has some.
    assert shown[:-1] == printed[:-1]
    counts = [int(count) for count in re.findall(r"\d+", shown[-1])]
    assert sum(counts) == len(CHECKS)
